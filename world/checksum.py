"""A checksum of a version's content that does not depend on the order of rows or the writer.

Each row is written as text and hashed with SHA-256; the digests are added up, as four
unsigned 64-bit numbers that wrap around. A sum needs no order, so any number of writers can
add their parts, and Spark computes the same with column expressions (jobs/world_checksum.py).
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from schemas import entity


def content_checksum(entities: pa.Table) -> str:
    """The checksum of all rows, as 64 hexadecimal digits."""
    columns = [
        entities.column(name).to_pylist()
        for name in (entity.PEID, entity.CATEGORIES, entity.NAME, entity.GEOMETRY)
    ]
    digests = b"".join(
        hashlib.sha256(row_text(*row).encode()).digest() for row in zip(*columns, strict=True)
    )
    lanes = np.frombuffer(digests, dtype=">u8").reshape(-1, 4).astype(np.uint64)
    return "".join(f"{int(lane):016x}" for lane in lanes.sum(axis=0, dtype=np.uint64))


def row_text(peid: int, categories: list[str], name: str | None, geometry: bytes) -> str:
    """One row as text that no other row has: strings are preceded by their length."""
    written_categories = "".join(f"{len(category)}:{category}" for category in categories)
    written_name = "" if name is None else f"{len(name)}:{name}"
    return f"{peid}|{written_categories}|{written_name}|{geometry.hex().upper()}"
