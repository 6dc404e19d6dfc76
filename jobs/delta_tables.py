"""How the jobs write Delta tables: one version at a time, each replaced in one commit."""

from __future__ import annotations

from typing import Final

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from schemas.entity import VERSION

# Large enough that a file is worth opening, small enough that several can be read at once.
ROWS_PER_FILE: Final = 5_000_000


def replace_version(rows: DataFrame, path: str, version: int) -> None:
    """Put ``rows``, all of this version, in place of those that the table has of it.

    A table that is not there is made by the same commit.
    """
    replaced = f"{VERSION} = {version}"
    _by_version(rows).mode("overwrite").option("replaceWhere", replaced).save(path)


def append_to_version(rows: DataFrame, path: str) -> None:
    """Add rows to a table that is partitioned by version; one that is not there is made."""
    _by_version(rows).mode("append").save(path)


def _by_version(rows: DataFrame) -> DataFrameWriter:
    return (
        rows.write.format("delta")
        .partitionBy(VERSION)
        .option("compression", "zstd")
        .option("maxRecordsPerFile", ROWS_PER_FILE)
    )


def append_row(row: DataFrame, path: str) -> None:
    """Add one row to a table of facts."""
    row.coalesce(1).write.format("delta").mode("append").save(path)


def is_table(spark: SparkSession, path: str) -> bool:
    """Whether there is a Delta table at the path."""
    return DeltaTable.isDeltaTable(spark, path)
