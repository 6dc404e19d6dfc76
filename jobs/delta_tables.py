"""How the jobs write Delta tables: one version at a time, each replaced in one commit."""

from __future__ import annotations

from typing import Final

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from schemas.entity import VERSION

# Large enough that a file is worth opening, small enough that several can be read at once.
ROWS_PER_FILE: Final = 5_000_000


def create_table(spark: SparkSession, path: str, columns: str, *, partitioned: bool = True) -> None:
    """Make the table when it is not there; ``columns`` as in SQL, the version first.

    By an empty write: Delta's table builder takes a relative path for the name of a table.
    """
    if is_table(spark, path):  # a look at the folder; a write that finds the table costs a job
        return
    writer = spark.createDataFrame([], columns).write.format("delta").mode("ignore")
    (writer.partitionBy(VERSION) if partitioned else writer).save(path)


def replace_version(rows: DataFrame, path: str, version: int) -> None:
    """Put ``rows``, all of this version, in place of those that the table has of it.

    A table that is not there is made by the same commit.
    """
    (
        rows.write.format("delta")
        .mode("overwrite")
        .partitionBy(VERSION)
        .option("replaceWhere", f"{VERSION} = {version}")
        .option("compression", "zstd")
        .option("maxRecordsPerFile", ROWS_PER_FILE)
        .save(path)
    )


def is_table(spark: SparkSession, path: str) -> bool:
    """Whether there is a Delta table at the path."""
    return DeltaTable.isDeltaTable(spark, path)
