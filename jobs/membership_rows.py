"""From members of nodes to membership rows: the step that makes few rows many, and comes last."""

from __future__ import annotations

import math
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.compiled_batch import SUB_IDS, BatchFacts, CompiledBatch
from jobs.delta_tables import replace_version
from jobs.level_loop import LevelLoop
from schemas.membership import PEID, STAGE_NO, SUB_ID, VERSION
from schemas.related import ENTITY, NODE
from spatial_udfs.sedona_salting import spread

# The longest array that a row of the join carries.
CHUNK: Final = 1_000
# Who shows what belongs to the batch: up to this many subIds, every task gets all of them.
BROADCAST_SUB_IDS: Final = 4_000_000
# How many tasks share the members of one node when there are more.
SPREAD_OVER: Final = 32
ROWS_PER_TASK: Final = 1_500_000
# Fewer than these are not worth more than one file.
MEMBERS_OF_ONE_TASK: Final = 20_000

_SPREAD: Final = "spread"


def write_memberships(
    spark: SparkSession, path: str, batch: CompiledBatch, loop: LevelLoop, version: int
) -> int:
    """Replace the memberships of the version in one commit; how many rows it has."""
    # The levels left partitions of very different sizes.
    everything = reduce(DataFrame.unionAll, loop.everything()).repartition(
        _tasks(batch.facts, loop.count(), spark.sparkContext.defaultParallelism)
    )
    rows = _rows(everything, batch)
    counted = Observation()
    versioned = rows.select(F.lit(version).cast("bigint").alias(VERSION), SUB_ID, PEID, STAGE_NO)
    replace_version(versioned.observe(counted, F.count(F.lit(1)).alias("rows")), path, version)
    return int(counted.get["rows"])


def _tasks(facts: BatchFacts, members: int, parallelism: int) -> int:
    """How many tasks, and so files, the rows need, if all nodes were equally popular."""
    for_each_member = facts.shown_sub_ids / max(facts.shown_nodes, 1)
    tasks = math.ceil(members * for_each_member / ROWS_PER_TASK)
    return max(tasks, parallelism if members > MEMBERS_OF_ONE_TASK else 1)


def _rows(members: DataFrame, batch: CompiledBatch) -> DataFrame:
    """Every member of a node with every subscription that shows it."""
    shown = _in_chunks(batch.shown())
    if batch.facts.shown_sub_ids <= BROADCAST_SUB_IDS:
        joined = members.join(F.broadcast(shown), on=NODE, how="inner")
    else:
        every_part = F.explode(F.sequence(F.lit(0), F.lit(SPREAD_OVER - 1)))
        joined = members.withColumn(_SPREAD, spread(F.col(ENTITY), SPREAD_OVER)).join(
            shown.withColumn(_SPREAD, every_part), on=[NODE, _SPREAD], how="inner"
        )
    return joined.select(F.explode(SUB_IDS).alias(SUB_ID), F.col(ENTITY).alias(PEID), STAGE_NO)


def _in_chunks(shown: DataFrame) -> DataFrame:
    """No more than CHUNK subscriptions in a row: half of all may show the same node."""
    starts = F.sequence(F.lit(1), F.size(SUB_IDS), F.lit(CHUNK))
    chunks = F.transform(starts, lambda start: F.slice(F.col(SUB_IDS), start, F.lit(CHUNK)))
    return shown.select(NODE, STAGE_NO, F.explode(chunks).alias(SUB_IDS))
