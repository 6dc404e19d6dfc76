"""From members of nodes to membership rows: the step that makes few rows many, and comes last."""

from __future__ import annotations

import math
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.compiled_batch import SUB_IDS, CompiledBatch
from jobs.delta_tables import replace_version
from schemas.membership import PEID, STAGE_NO, SUB_ID, VERSION
from schemas.related import ENTITY
from spatial_udfs.sedona_salting import spread
from spatial_udfs.sedona_stage_graph import NODE

# The longest array that a row of the join carries.
CHUNK: Final = 1_000
# Who shows what belongs to the batch: up to this many subIds, every task gets all of them.
BROADCAST_SUB_IDS: Final = 4_000_000
# How many tasks share the members of one node when there are more.
SPREAD_OVER: Final = 32
ROWS_PER_TASK: Final = 1_500_000

_SPREAD: Final = "spread"


def write_memberships(
    spark: SparkSession, path: str, batch: CompiledBatch, members: list[DataFrame], version: int
) -> int:
    """Replace the memberships of the version in one commit; how many rows it has."""
    everything = reduce(DataFrame.unionAll, members)
    rows = _rows(_in_tasks(spark, everything, batch), batch)
    counted = Observation()
    versioned = rows.select(F.lit(version).cast("bigint").alias(VERSION), SUB_ID, PEID, STAGE_NO)
    replace_version(versioned.observe(counted, F.count(F.lit(1)).alias("rows")), path, version)
    return int(counted.get["rows"])


def _in_tasks(spark: SparkSession, members: DataFrame, batch: CompiledBatch) -> DataFrame:
    """The members in as many partitions as their rows will need tasks and files."""
    sizes = batch.shown().groupBy(NODE).agg(F.sum(F.size(SUB_IDS)).alias("subscriptions"))
    expected = members.groupBy(NODE).count().join(sizes, on=NODE, how="inner")
    total = expected.agg(F.sum(F.col("count") * F.col("subscriptions"))).collect()[0][0] or 0
    tasks = math.ceil(total / ROWS_PER_TASK)
    if tasks > 1:
        tasks = max(tasks, spark.sparkContext.defaultParallelism)
    # The levels left partitions of very different sizes.
    return members.repartition(max(tasks, 1))


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
