"""A checksum of a version's content that does not depend on the order of rows or the writer.

Each row is written as text and hashed with SHA-256; the digests are added up, as four
unsigned 64-bit numbers that wrap around. A sum needs no order, so any number of writers can
add their parts, and Spark computes the same with column expressions
(jobs/pipeline/world/world_checksum.py).
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import entity

# The texts of some rows are held at once, and must fit into an Arrow array.
ROWS_AT_ONCE: Final = 65_536


def content_checksum(entities: pa.Table) -> str:
    """Return the checksum of all rows, as 64 hexadecimal digits."""
    digests = b"".join(
        hashlib.sha256(text).digest()
        for batch in entities.to_batches(max_chunksize=ROWS_AT_ONCE)
        for text in _row_texts(batch).cast(pa.binary()).to_pylist()
    )
    lanes = np.frombuffer(digests, dtype=">u8").reshape(-1, 4).astype(np.uint64)
    return "".join(f"{int(lane):016x}" for lane in lanes.sum(axis=0, dtype=np.uint64))


def _row_texts(rows: pa.RecordBatch) -> pa.StringArray:
    """Return ``peid|categories|name|geometry`` of each row: a text that no other row has.

    Every category and the name are preceded by their length in characters, as in ``4:road``;
    a row without a name has nothing there. The geometry is hexadecimal.
    """
    lists = rows.column(entity.CATEGORIES)
    categories = pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(pc.list_value_length(lists))]), pa.int32()),
        _with_length(lists.flatten()),
    )
    return pc.binary_join_element_wise(
        rows.column(entity.PEID).cast(pa.string()),
        pc.binary_join(categories, ""),
        pc.fill_null(_with_length(rows.column(entity.NAME)), ""),
        _hexadecimal(rows.column(entity.GEOMETRY)),
        "|",
    )


def _with_length(texts: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise(pc.utf8_length(texts).cast(pa.string()), texts, ":")


def _hexadecimal(values: pa.BinaryArray) -> pa.StringArray:
    """Return every byte as two hexadecimal digits, of all values at once."""
    lengths = pc.binary_length(values).to_numpy()
    ends = np.concatenate([[0], np.cumsum(lengths)])
    start = np.frombuffer(values.buffers()[1], np.int32)[values.offset] if len(values) else 0
    data = memoryview(values.buffers()[2] or b"")[start : start + ends[-1]]
    digits = pa.py_buffer(data.hex().upper().encode())
    offsets = pa.py_buffer((2 * ends).astype(np.int64))
    return pa.LargeStringArray.from_buffers(len(values), offsets, digits).cast(pa.string())
