"""The work behind ``related_tables``: from entities to the pairs of one version.

Sedona's index-backed join brings together what reaches into the same tile. In each tile GEOS
finds the pairs and their matrices (docs/decisions/0041). Then each bucket of the world gets
its pairs and entities, and writes them as files of the tables beside the world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.exchange import BLOCK_TYPES, DRIVER, Sent, Tasks, batches_of, divided
from jobs.pipeline.world_tables import WorldVersion, frame_of_files
from schemas.entity import (
    CATEGORIES,
    ENTITIES_TABLE,
    ENTITY,
    GEOMETRY,
    HEAVY,
    PAIR_KIND,
    PEID,
    PLACED_TABLE,
    REFERENCE,
    RELATED_TABLE,
)
from spatial_udfs.bulk.bucket_parts import (
    BucketPart,
    joined_bucket,
    taken_over,
)
from spatial_udfs.bulk.buckets import bucket_count
from spatial_udfs.bulk.sedona_joins import LARGE, MOST_COPIED_BYTES, TILE, tiled
from spatial_udfs.bulk.tile_pairs import CHANGED, TileTask
from spatial_udfs.bulk.world_survey import WorldSurvey, joined_survey, surveyed_rows
from spatial_udfs.bulk.world_tiles import LARGEST_SAMPLE, cut_into_tiles
from spatial_udfs.entity_table import Int32s
from world.lake.bulk_tables import PAIRS, PLACED
from world.lake.lake_tables import LakeTable, NewFile, TableFile, lake_errors

# When more than this share has changed, taking pairs over saves nothing.
MOST_CHANGED: Final = 0.5
# How many tiles a task has at once, when there are enough for all tasks.
TILES_PER_TASK: Final = 16
# Rows of an entity and its pairs, about.
ROWS_OF_ENTITY: Final = 10
_PAIR_TYPES: Final = f"{REFERENCE} bigint, {ENTITY} bigint, {PAIR_KIND} int"
_HEAVY_TYPES: Final = f"{PEID} bigint, {HEAVY} boolean"
# Rows of a row group: readers that ask for few references read only the groups that have them.
PAIRS_IN_GROUP: Final = 8_192
ENTITIES_IN_GROUP: Final = 4_096


class WrittenBucket(NamedTuple):
    """What a task has written of a bucket, and which kinds of pairs are there."""

    pairs: list[NewFile]
    placed: list[NewFile]
    kinds: Int32s


@dataclass(frozen=True, slots=True, eq=False)
class RelatedBuild:
    """Pairs and entities of a version as files that nobody has committed yet."""

    survey: WorldSurvey
    buckets: int
    pair_files: list[NewFile]
    placed_files: list[NewFile]
    pair_kinds: tuple[int, ...]
    derived_from: int | None

    @property
    def pair_count(self) -> int:
        """How many directed pairs there are."""
        return sum(file.rows for file in self.pair_files)


def build_related(tasks: Tasks, world: WorldVersion, base: int | None) -> RelatedBuild:
    """Find and write the pairs of a version, with those of the version ``base`` taken over."""
    survey = survey_world(tasks, world)
    buckets = bucket_count(world.entity_count)
    if base is not None:
        share = _marked(world, base).agg(F.avg(F.col(CHANGED).cast("int"))).collect()[0][0]
        base = base if share is not None and share <= MOST_CHANGED else None
    entities = _marked(world, base)
    parts = _fresh_parts(tasks, entities, survey, world.entity_count)
    if base is not None:
        parts = parts.unionByName(_taken_over(world, base, entities, survey))
    write = partial(
        _written_bucket, world.version, world.table(RELATED_TABLE), world.table(PLACED_TABLE)
    )
    size = ROWS_OF_ENTITY * world.entity_count
    written: list[WrittenBucket] = tasks.values(
        tasks.cells(parts, write, buckets, size), "related pairs by tile and bucket"
    )
    kinds = np.unique(np.concatenate([np.empty(0, np.int32), *(each.kinds for each in written)]))
    return RelatedBuild(
        survey=survey,
        buckets=buckets,
        pair_files=[file for each in written for file in each.pairs],
        placed_files=[file for each in written for file in each.placed],
        pair_kinds=tuple(kinds.tolist()),
        derived_from=base,
    )


def survey_world(tasks: Tasks, world: WorldVersion) -> WorldSurvey:
    """Look at every entity once."""
    shares = _row_groups(world.files, tasks.parallelism)
    one_of = -(-world.entity_count // LARGEST_SAMPLE) or 1
    table = world.table(ENTITIES_TABLE)

    def survey(share: tuple[str, int, int]) -> Iterator[Sent]:
        path, part, of = share
        with lake_errors(table.uri), table.store().open_input_file(path) as opened:
            file = pq.ParquetFile(opened)
            groups = list(range(part, file.num_row_groups, of))
            if not groups:
                return
            columns = [PEID, CATEGORIES, GEOMETRY]
            rows = file.read_row_groups(groups, columns=columns, use_threads=False)
        yield DRIVER, surveyed_rows(rows, one_of)

    return joined_survey(tasks.run(survey, shares, "look at the world", 5 * world.entity_count))


def _row_groups(files: tuple[TableFile, ...], parallelism: int) -> list[tuple[str, int, int]]:
    """(file, part, of): every ``of``-th row group of a file, from number ``part``."""
    of = -(-parallelism // max(len(files), 1))
    return [(file.path, part, of) for file in files for part in range(of)]


def _marked(world: WorldVersion, base: int | None) -> DataFrame:
    """Return the entities with CHANGED: whether they differ from the base version."""
    entities = world.entities()
    if base is None:
        return entities.withColumn(CHANGED, F.expr("true"))
    before = world.entities(base).select(PEID, F.col(GEOMETRY).alias("old"))
    same = F.col(GEOMETRY).eqNullSafe(F.col("old"))
    return entities.join(before, on=PEID, how="left").withColumn(CHANGED, ~same).drop("old")


def _fresh_parts(
    tasks: Tasks, entities: DataFrame, survey: WorldSurvey, entity_count: int
) -> DataFrame:
    """Return blocks of BucketParts: all entities, and the pairs with a changed end."""
    tiles = cut_into_tiles(survey.places, entity_count)
    count = min(len(tiles), max(len(tiles) // TILES_PER_TASK, 2 * tasks.parallelism))
    columns = (TILE, PEID, CATEGORIES, CHANGED, LARGE, GEOMETRY)
    few = survey.copied <= MOST_COPIED_BYTES
    sent = tiled(entities, tiles, with_large=survey.copied > 0, may_copy=few).select(*columns)
    task = TileTask(tiles, survey.vocabulary, bucket_count(entity_count))
    return divided(sent, TILE, count).mapInArrow(_as_blocks(task), BLOCK_TYPES)


def _taken_over(
    world: WorldVersion, base: int, marked: DataFrame, survey: WorldSurvey
) -> DataFrame:
    """Return pairs of the base version of which both ends are still there and unchanged."""
    pairs, placed = (
        frame_of_files(world.spark, table, table.files(base), types)
        for table, types in (
            (world.table(RELATED_TABLE), _PAIR_TYPES),
            (world.table(PLACED_TABLE), _HEAVY_TYPES),
        )
    )
    same = marked.where(~F.col(CHANGED))
    references = same.join(placed, on=PEID, how="inner").select(F.col(PEID).alias(REFERENCE), HEAVY)
    entities = same.select(F.col(PEID).alias(ENTITY), CATEGORIES)
    kept = (
        pairs.join(references, on=REFERENCE, how="inner")
        .join(entities, on=ENTITY, how="inner")
        .select(REFERENCE, ENTITY, PAIR_KIND, CATEGORIES, HEAVY)
    )
    buckets = bucket_count(world.entity_count)
    task = partial(taken_over, vocabulary=survey.vocabulary, buckets=buckets)
    return kept.mapInArrow(_as_blocks(task), BLOCK_TYPES)


def _as_blocks(
    task: Callable[[Iterable[pa.RecordBatch]], Iterator[Sent]],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches_of(task(batches))

    return run


def _written_bucket(
    version: int, related: LakeTable, placed: LakeTable, bucket: int, parts: list[BucketPart]
) -> Iterator[Sent]:
    """Write what was found for a bucket."""
    pairs, placed_columns = joined_bucket(parts)
    yield (
        DRIVER,
        WrittenBucket(
            related.write(version, bucket, _groups(pairs, PAIRS, PAIRS_IN_GROUP), PAIRS),
            placed.write(
                version, bucket, _groups(placed_columns, PLACED, ENTITIES_IN_GROUP), PLACED
            ),
            np.unique(pairs.kinds),
        ),
    )


def _groups(columns: tuple[Any, ...], schema: pa.Schema, size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(columns[0]), size):
        arrays = [pa.array(column[start : start + size]) for column in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
