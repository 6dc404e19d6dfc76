"""Frames that are computed now and used often, cut off from how they came about.

Without the cut a level's plan would hold those of all levels before it, and planning would
soon cost more than the work.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses
from pyspark.storagelevel import StorageLevel

# A reference and what it carries of its node take some 60 bytes.
BROADCAST_ROWS: Final = 500_000


def sent(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A table that belongs to the batch: every task gets all of it, unless it is large."""
    frame = spark.createDataFrame(table)
    return F.broadcast(frame) if len(table) <= BROADCAST_ROWS else frame


def work_behind(spark: SparkSession) -> None:
    """Let what this thread asks Spark for share the cores with the run, not go before it.

    It takes the cores while the run plans, instead of making each of its small steps wait.
    """
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "behind")


def kept(frame: DataFrame) -> DataFrame:
    """The frame, computed; executors hold it until nobody refers to it any more."""
    # With a checkpoint folder the loss of an executor costs a step, without it the run.
    if frame.sparkSession.sparkContext.getCheckpointDir() is not None:
        return frame.checkpoint(eager=True)
    return frame.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)


def kept_and_counted(frame: DataFrame) -> tuple[DataFrame, int]:
    """The same, and how many rows it has, without a second pass."""
    seen = Observation()
    result = kept(frame.observe(seen, F.count(F.lit(1)).alias("rows")))
    return result, int(seen.get["rows"])
