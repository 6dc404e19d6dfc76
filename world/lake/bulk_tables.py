"""The Delta tables of the bulk job: every schema in one place.

Tables of a world are partitioned by version and bucket, those of an output folder by version.
``memberships`` stands in ``world/memberships/membership_table.py``: other engines write it too.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from schemas import entity
from schemas.entity import BUCKET, VERSION
from schemas.membership import COMMIT, FINISHED_AT, GENERATION, RUN_ID, SUB_ID
from world.memberships.run_commits import TIME

WORLD_PARTITIONS: Final = [VERSION, BUCKET]

PAIRS: Final = pa.schema(
    [
        pa.field(entity.REFERENCE, pa.int64(), nullable=False),
        pa.field(entity.ENTITY, pa.int64(), nullable=False),
        pa.field(entity.PAIR_KIND, pa.int32(), nullable=False),
        pa.field(entity.CATEGORY_SET, pa.int32(), nullable=False),
    ]
)
PLACED: Final = pa.schema(
    [
        pa.field(entity.PEID, pa.int64(), nullable=False),
        pa.field(entity.SHAPE, pa.int32(), nullable=False),
        pa.field(entity.CATEGORY_SET, pa.int32(), nullable=False),
        pa.field(entity.HEAVY, pa.bool_(), nullable=False),
        pa.field(entity.GEOMETRY, pa.binary(), nullable=False),
    ]
)
RELATED_VERSIONS: Final = pa.schema(
    [
        (VERSION, pa.int64()),
        (entity.CHECKSUM, pa.string()),
        (entity.METHOD, pa.int32()),
        (entity.ENGINE, pa.string()),
        (entity.PAIR_COUNT, pa.int64()),
        (entity.PAIR_KINDS, pa.list_(pa.int32())),
        (entity.BUCKETS, pa.int32()),
        (entity.DIAMETER, pa.float64()),
        (entity.DERIVED_FROM, pa.int64()),
        (entity.VOCABULARY, pa.list_(pa.list_(pa.string()))),
        (entity.CREATED_AT, pa.timestamp("us", tz="UTC")),
    ]
)
RESOLVED_SETS: Final = pa.schema(
    [
        (entity.RUN, pa.int64()),
        (entity.NODE, pa.int64()),
        (entity.ENTITY, pa.int64()),
        (entity.PROOF, pa.int64()),
        (entity.CHECKSUM, pa.string()),
        (entity.METHOD, pa.int32()),
    ]
)

PROBLEMS_TABLE: Final = "problems"
KIND: Final = "kind"  # string: what kind of problem
WHERE: Final = "where"  # string: the line, for a person
REASON: Final = "reason"  # string: what is wrong, for a person

PROBLEMS: Final = pa.schema(
    {KIND: pa.string(), WHERE: pa.string(), SUB_ID: pa.int64(), REASON: pa.string()}
)
_LISTED: Final = pa.list_(pa.struct(list(PROBLEMS)))
_LEVELS: Final = pa.list_(
    pa.struct(
        {"level": pa.int32(), "nodes": pa.int64(), "members": pa.int64(), "seconds": pa.float64()}
    )
)
RUNS: Final = pa.schema(
    {
        VERSION: pa.int64(), "startedAt": TIME, FINISHED_AT: TIME, "world": pa.string(),
        "source": pa.string(), "subscriptions": pa.int64(), "resolved": pa.int64(),
        "unresolvedCount": pa.int64(), "remarkCount": pa.int64(), "descriptors": pa.int64(),
        "nodes": pa.int64(), "rows": pa.int64(), "related": pa.string(), "levels": _LEVELS,
        "seconds": pa.map_(pa.string(), pa.float64()), "unresolved": _LISTED, "remarks": _LISTED,
        RUN_ID: pa.string(), COMMIT: pa.int64(), "worldCommit": pa.int64(),
        "snapshot": pa.string(), GENERATION: pa.int64(),
    }
)  # fmt: skip


def in_world(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a table of a world: that of its files, and what their folders say."""
    return pa.schema([(VERSION, pa.int64()), (BUCKET, pa.int32()), *schema])


def in_output(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a table of an output folder."""
    return pa.schema([pa.field(VERSION, pa.int64()), *schema])
