"""The work behind ``related_tables``: from entities to the pairs of one version.

Sedona's index-backed join brings together what reaches into the same tile. In each tile GEOS
finds the pairs and their matrices (docs/decisions/0041). Then each bucket of the world gets
its pairs and entities, and writes them as files of the tables beside the world.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses
from pyspark.storagelevel import StorageLevel

from jobs.pipeline.lake_tables import LakeTable, NewFile
from jobs.pipeline.pairs.world_survey import WorldSurvey, survey_world
from jobs.pipeline.world_tables import WorldVersion, frame_of_files
from schemas.entity import (
    CATEGORIES,
    CATEGORY_SET,
    ENTITY,
    GEOMETRY,
    PAIR_KIND,
    PEID,
    PLACED_TABLE,
    REFERENCE,
    RELATED_TABLE,
    SHAPE,
)
from spatial_udfs.bulk.batch_tables import Int32s
from spatial_udfs.bulk.bucket_parts import (
    PACKED_TYPES,
    EntityColumns,
    PairColumns,
    taken_over,
    unpacked,
)
from spatial_udfs.bulk.buckets import bucket_count
from spatial_udfs.bulk.sedona_tiles import TILE, tiled
from spatial_udfs.bulk.tile_pairs import CHANGED, TileTask
from spatial_udfs.bulk.world_bucket import HeavyEntities
from spatial_udfs.bulk.world_tiles import ENTITIES_PER_TILE, cut_into_tiles
from spatial_udfs.entity_table import Int64s

# When more than this share has changed, taking pairs over saves nothing.
MOST_CHANGED: Final = 0.5
# How many tiles a task has at once, when there are enough for all tasks.
TILES_PER_TASK: Final = 4
PAIR_SCHEMA: Final = pa.schema(
    [
        pa.field(REFERENCE, pa.int64(), nullable=False),
        pa.field(ENTITY, pa.int64(), nullable=False),
        pa.field(PAIR_KIND, pa.int32(), nullable=False),
        pa.field(CATEGORY_SET, pa.int32(), nullable=False),
    ]
)
PLACED_SCHEMA: Final = pa.schema(
    [
        pa.field(PEID, pa.int64(), nullable=False),
        pa.field(SHAPE, pa.int32(), nullable=False),
        pa.field(CATEGORY_SET, pa.int32(), nullable=False),
    ]
)
_PAIR_TYPES: Final = f"{REFERENCE} bigint, {ENTITY} bigint, {PAIR_KIND} int"
# Small enough for a core's cache, large enough to be worth a call.
_ROWS_IN_BATCH: Final = 250_000


class WrittenBucket(NamedTuple):
    """What a task has written of a bucket, and what it has seen there."""

    pairs: list[NewFile]
    placed: list[NewFile]
    kinds: Int32s
    heavy: EntityColumns


@dataclass(frozen=True, slots=True, eq=False)
class BaseVersion:
    """A version whose pairs may be taken over."""

    version: int
    heavy: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class RelatedBuild:
    """Pairs and entities of a version as files that nobody has committed yet."""

    survey: WorldSurvey
    buckets: int
    pair_files: list[NewFile]
    placed_files: list[NewFile]
    pair_kinds: tuple[int, ...]
    heavy: HeavyEntities
    derived_from: int | None

    @property
    def pair_count(self) -> int:
        """How many directed pairs there are."""
        return sum(file.rows for file in self.pair_files)


def build_related(
    spark: SparkSession, world: WorldVersion, base: BaseVersion | None
) -> RelatedBuild:
    """Find and write the pairs of a version."""
    with ThreadPoolExecutor(1, "planning") as beside:
        # The workers look at the world; meanwhile the driver learns to plan.
        planned = beside.submit(_plan_ahead, world)
        survey = survey_world(spark, world)
        planned.result()
    buckets = bucket_count(world.entity_count)
    no_heavy = np.empty(0, np.int64)
    marked = _marked(world, base)
    if base is not None:
        marked = marked.persist(StorageLevel.MEMORY_AND_DISK)
        share = marked.agg(F.avg(F.col(CHANGED).cast("int"))).collect()[0][0]
        base = base if share is not None and share <= MOST_CHANGED else None
    if base is None:
        parts = _fresh_parts(_marked(world, None), survey, world.entity_count, no_heavy)
    else:
        fresh = _fresh_parts(marked, survey, world.entity_count, base.heavy)
        parts = fresh.unionByName(_taken_over(world, base, marked, survey))
    task = partial(
        _write_buckets,
        version=world.version,
        related=world.table(RELATED_TABLE),
        placed=world.table(PLACED_TABLE),
    )
    rows = parts.repartition(buckets, "bucket").mapInArrow(task, "written binary").collect()
    marked.unpersist()
    written: list[WrittenBucket] = [pickle.loads(row[0]) for row in rows]  # noqa: S301 - our tasks'
    kinds = np.unique(np.concatenate([np.empty(0, np.int32), *(each.kinds for each in written)]))
    heavy = EntityColumns.joined([each.heavy for each in written])
    _, first = np.unique(heavy.peids, return_index=True)
    return RelatedBuild(
        survey=survey,
        buckets=buckets,
        pair_files=[file for each in written for file in each.pairs],
        placed_files=[file for each in written for file in each.placed],
        pair_kinds=tuple(kinds.tolist()),
        heavy=HeavyEntities(*heavy.at(first)),
        derived_from=None if base is None else base.version,
    )


def _plan_ahead(world: WorldVersion) -> None:
    """Plan the join for no tiles in particular: the first plan of a process takes a second."""
    survey = WorldSurvey([[]], 0.0, np.array([[0.0, 0.0], [1.0, 1.0]]))
    parts = _fresh_parts(_marked(world, None), survey, 2 * ENTITIES_PER_TILE, np.empty(0, np.int64))
    parts._jdf.queryExecution().executedPlan()  # noqa: SLF001 - explain() prints what it plans


def _marked(world: WorldVersion, base: BaseVersion | None) -> DataFrame:
    """Entities with CHANGED: whether the base version has them as they are."""
    entities = world.entities()
    if base is None:
        return entities.withColumn(CHANGED, F.expr("true"))
    before = world.entities(base.version).select(PEID, F.col(GEOMETRY).alias("old"))
    same = F.col(GEOMETRY).eqNullSafe(F.col("old"))
    return entities.join(before, on=PEID, how="left").withColumn(CHANGED, ~same).drop("old")


def _fresh_parts(
    entities: DataFrame, survey: WorldSurvey, entity_count: int, heavy: Int64s
) -> DataFrame:
    """Rows of PACKED_TYPES: all entities, and the pairs with a changed end."""
    tiles = cut_into_tiles(survey.places, entity_count)
    at_once = entities.sparkSession.sparkContext.defaultParallelism
    tasks = min(len(tiles), max(len(tiles) // TILES_PER_TASK, 4 * at_once))
    sent = tiled(entities, tiles).select(TILE, PEID, CATEGORIES, CHANGED, GEOMETRY)
    task = TileTask(tiles, survey.vocabulary, bucket_count(entity_count), heavy)
    return sent.repartition(tasks, TILE).mapInArrow(task, PACKED_TYPES)


def _taken_over(
    world: WorldVersion, base: BaseVersion, marked: DataFrame, survey: WorldSurvey
) -> DataFrame:
    """Pairs of the base version of which both ends are still there and unchanged."""
    table = world.table(RELATED_TABLE)
    pairs = frame_of_files(world.spark, table, table.files(base.version), _PAIR_TYPES)
    same = marked.where(~F.col(CHANGED))
    references = same.select(F.col(PEID).alias(REFERENCE))
    entities = same.select(F.col(PEID).alias(ENTITY), CATEGORIES)
    kept = (
        pairs.join(references, on=REFERENCE, how="left_semi")
        .join(entities, on=ENTITY, how="inner")
        .select(REFERENCE, ENTITY, PAIR_KIND, CATEGORIES)
    )
    task = partial(
        taken_over,
        vocabulary=survey.vocabulary,
        heavy=base.heavy,
        buckets=bucket_count(world.entity_count),
    )
    return kept.mapInArrow(task, PACKED_TYPES)


def _write_buckets(
    batches: Iterable[pa.RecordBatch], version: int, related: LakeTable, placed: LakeTable
) -> Iterator[pa.RecordBatch]:
    """The task for some buckets: their parts in, what was written of each out."""
    parts: dict[int, list[bytes]] = {}
    for batch in batches:
        for bucket, part in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            parts.setdefault(bucket, []).append(part)
    for bucket in sorted(parts):
        found = [unpacked(part) for part in parts.pop(bucket)]
        pairs = PairColumns.joined([part.pairs for part in found])
        # Readers look references up by bisection.
        order = np.argsort(pairs.references, kind="stable")
        entities = EntityColumns.joined([part.entities for part in found])
        by_peid = np.argsort(entities.peids)
        placed_columns = (entities.peids, entities.shapes.astype(np.int32), entities.category_sets)
        written = WrittenBucket(
            related.write(version, bucket, _batches(pairs, order, PAIR_SCHEMA), PAIR_SCHEMA),
            placed.write(
                version,
                bucket,
                _batches(placed_columns, by_peid, PLACED_SCHEMA),
                PLACED_SCHEMA,
            ),
            np.unique(pairs.kinds),
            EntityColumns.joined([part.heavy for part in found]),
        )
        packed = pa.array([pickle.dumps(written, protocol=5)], pa.binary())
        yield pa.RecordBatch.from_arrays([packed], names=["written"])


def _batches(
    columns: tuple[np.ndarray, ...], order: Int64s, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(order), _ROWS_IN_BATCH):
        places = order[start : start + _ROWS_IN_BATCH]
        arrays = [pa.array(column[places]) for column in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
