"""The Arrow schemas of a world's tables, the facts of one version, and its checksum.

The names of tables and columns are in ``schemas.entity``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import entity

# The kind of a source that is a file with the names and options of all others.
IMPORT_FILE: Final = "import-file"
# The kind of an extract of OpenStreetMap, and what its licence asks maps to say.
OSM: Final = "osm"
OPENSTREETMAP: Final = "© OpenStreetMap contributors, ODbL 1.0"
# The texts of so many rows are in memory at once, and must fit into one Arrow array.
ROWS_AT_ONCE: Final = 65_536

ENTITIES: Final = pa.schema(
    [
        (entity.VERSION, pa.int64()),
        (entity.PEID, pa.int64()),
        (entity.CATEGORIES, pa.list_(pa.string())),
        (entity.NAME, pa.string()),
        (entity.GEOMETRY, pa.binary()),
        # Last, where a table of before there were keys gets the column too.
        (entity.KEY, pa.string()),
    ]
)

# The rows that a writer passes in; the store adds the version.
UNVERSIONED_ENTITIES: Final = ENTITIES.remove(0)

PROBLEMS: Final = pa.schema(
    [
        (entity.VERSION, pa.int64()),
        (entity.PROBLEM_KIND, pa.string()),
        (entity.KEPT, pa.bool_()),
        (entity.PEID, pa.int64()),
        (entity.SOURCE, pa.string()),
        (entity.LOCATOR, pa.string()),
        (entity.REASON, pa.string()),
    ]
)

UNVERSIONED_PROBLEMS: Final = PROBLEMS.remove(0)

VERSIONS: Final = pa.schema(
    [
        (entity.VERSION, pa.int64()),
        (entity.SRID, pa.int32()),
        (entity.CREATED_AT, pa.timestamp("us", tz="UTC")),
        (
            entity.SOURCES,
            pa.list_(
                pa.struct(
                    [
                        ("path", pa.string()),
                        ("kind", pa.string()),
                        ("sha256", pa.string()),
                        ("bytes", pa.int64()),
                    ]
                )
            ),
        ),
        (entity.RULES_SHA256, pa.string()),
        (entity.ENTITY_COUNT, pa.int64()),
        (entity.PROBLEM_COUNTS, pa.map_(pa.string(), pa.int64())),
        (entity.CHECKSUM, pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """One source file at the time of its import."""

    path: str
    kind: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """The facts of a complete version, known without reading its entities."""

    version: int
    srid: int
    created_at: datetime
    sources: tuple[SourceFacts, ...]
    rules_sha256: str
    entity_count: int
    problem_counts: Mapping[str, int]
    checksum: str

    def as_row(self) -> dict[str, Any]:
        """Return the row to write, by column name."""
        return {
            entity.VERSION: self.version,
            entity.SRID: self.srid,
            entity.CREATED_AT: self.created_at,
            entity.SOURCES: [asdict(source) for source in self.sources],
            entity.RULES_SHA256: self.rules_sha256,
            entity.ENTITY_COUNT: self.entity_count,
            entity.PROBLEM_COUNTS: list(self.problem_counts.items()),
            entity.CHECKSUM: self.checksum,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> VersionFacts:
        """Return the facts of a row as pyarrow reads it."""
        return cls(
            version=row[entity.VERSION],
            srid=row[entity.SRID],
            created_at=row[entity.CREATED_AT],
            sources=tuple(SourceFacts(**source) for source in row[entity.SOURCES]),
            rules_sha256=row[entity.RULES_SHA256],
            entity_count=row[entity.ENTITY_COUNT],
            problem_counts=dict(row[entity.PROBLEM_COUNTS]),
            checksum=row[entity.CHECKSUM],
        )

    def attribution(self) -> str:
        """Return the line that the licence of the sources asks for; "" where none does."""
        return OPENSTREETMAP if any(source.kind == OSM for source in self.sources) else ""

    def given_sources(self) -> list[str]:
        """Return the paths to import again: the import file alone if there was one."""
        paths = [source.path for source in self.sources]
        return paths[:1] if self.sources and self.sources[0].kind == IMPORT_FILE else paths

    def same_input(self, sources: tuple[SourceFacts, ...], rules_sha256: str) -> bool:
        """Return whether this version was imported from the same sources by the same rules.

        Paths do not count: a file that was moved is still the same file.
        """
        mine = [(source.kind, source.sha256) for source in self.sources]
        return self.rules_sha256 == rules_sha256 and mine == [
            (source.kind, source.sha256) for source in sources
        ]


def content_checksum(entities: pa.Table) -> str:
    """Return the checksum of all rows, as 64 hexadecimal digits.

    It does not depend on the order of rows or the writer. Each row is written as text and hashed
    with SHA-256; the digests are added as four unsigned 64-bit numbers that wrap around. A sum
    has no order, so writers can add their parts, and Spark computes the same with column
    expressions (jobs/pipeline/world/world_frames.py).
    """
    digests = b"".join(
        hashlib.sha256(text).digest()
        for batch in entities.to_batches(max_chunksize=ROWS_AT_ONCE)
        for text in _row_texts(batch).cast(pa.binary()).to_pylist()
    )
    quarters = np.frombuffer(digests, dtype=">u8").reshape(-1, 4).astype(np.uint64)
    return "".join(f"{int(quarter):016x}" for quarter in quarters.sum(axis=0, dtype=np.uint64))


def _row_texts(rows: pa.RecordBatch) -> pa.StringArray:
    """Return ``peid|categories|name|geometry|key`` of each row, distinct for distinct rows.

    Categories, name and key are preceded by their length in characters, as in ``4:road``; a missing
    name is empty. The geometry is hexadecimal. ``|key`` is left out if the key is null or the
    decimal peid.
    """
    lists = rows.column(entity.CATEGORIES)
    categories = pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(pc.list_value_length(lists))]), pa.int32()),
        _with_length(lists.flatten()),
    )
    peids = rows.column(entity.PEID).cast(pa.string())
    texts = pc.binary_join_element_wise(
        peids,
        pc.binary_join(categories, ""),
        pc.fill_null(_with_length(rows.column(entity.NAME)), ""),
        _hexadecimal(rows.column(entity.GEOMETRY)),
        "|",
    )
    keys = rows.column(entity.KEY)
    has_own = pc.fill_null(pc.not_equal(keys, peids), fill_value=False)
    with_keys = pc.binary_join_element_wise(texts, _with_length(keys), "|")
    return pc.if_else(has_own, with_keys, texts)


def _with_length(texts: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise(pc.utf8_length(texts).cast(pa.string()), texts, ":")


def _hexadecimal(values: pa.BinaryArray) -> pa.StringArray:
    """Return all values with every byte as two hexadecimal digits."""
    lengths = pc.binary_length(values).to_numpy()
    ends = np.concatenate([[0], np.cumsum(lengths)])
    start = np.frombuffer(values.buffers()[1], np.int32)[values.offset] if len(values) else 0
    data = memoryview(values.buffers()[2] or b"")[start : start + ends[-1]]
    digits = pa.py_buffer(data.hex().upper().encode())
    offsets = pa.py_buffer((2 * ends).astype(np.int64))
    return pa.LargeStringArray.from_buffers(len(values), offsets, digits).cast(pa.string())
