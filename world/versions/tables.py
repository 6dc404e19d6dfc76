"""The world tables as Arrow schemas: the types behind the names in ``schemas.entity``."""

from __future__ import annotations

from typing import Final

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
