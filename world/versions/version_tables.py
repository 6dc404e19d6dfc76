"""The tables of a world version as Arrow schemas, and the facts of one version.

The names of tables and columns stand in ``schemas.entity``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from schemas import entity

ENTITIES: Final = pa.schema(
    [
        (entity.VERSION, pa.int64()),
        (entity.PEID, pa.int64()),
        (entity.CATEGORIES, pa.list_(pa.string())),
        (entity.NAME, pa.string()),
        (entity.GEOMETRY, pa.binary()),
    ]
)

# What a writer hands over: the version is the store's business.
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
    """One source file as it was when it was imported."""

    path: str
    kind: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """Everything known about a complete version without reading its entities."""

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
        """Return the facts out of a row as pyarrow gives it."""
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

    def same_input(self, sources: tuple[SourceFacts, ...], rules_sha256: str) -> bool:
        """Return whether importing these sources by these rules would make this version again.

        Paths do not count: a file that was moved is still the same file.
        """
        mine = [(source.kind, source.sha256) for source in self.sources]
        return self.rules_sha256 == rules_sha256 and mine == [
            (source.kind, source.sha256) for source in sources
        ]
