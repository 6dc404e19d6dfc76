"""How the jobs write Delta tables: one version at a time, each replaced in one commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from schemas.entity import VERSION

# Large enough that a file is worth opening, small enough that several can be read at once.
ROWS_PER_FILE: Final = 5_000_000

_PLAIN: Final = (
    "spark.databricks.delta.stats.collect",
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled",
    "spark.databricks.delta.writeChecksumFile.enabled",
)


def replace_version(rows: DataFrame, path: str, version: int) -> None:
    """Put ``rows``, all of this version, in place of those that the table has of it.

    A table that is not there is made by the same commit.
    """
    with plain_commits(rows.sparkSession):
        (
            rows.write.format("delta")
            .mode("overwrite")
            .partitionBy(VERSION)
            .option("replaceWhere", f"{VERSION} = {version}")
            .option("compression", "zstd")
            .option("maxRecordsPerFile", ROWS_PER_FILE)
            .save(path)
        )


def append_row(row: DataFrame, path: str) -> None:
    """Add one row to a table of facts."""
    with plain_commits(row.sparkSession):
        row.coalesce(1).write.format("delta").mode("append").save(path)


@contextmanager
def plain_commits(spark: SparkSession) -> Iterator[None]:
    """Let Delta write rows and a commit, and nothing that nobody reads.

    Statistics by file help only readers of ordered rows, and ours lie as they came; that rows
    have the version they replace is so by construction; the sum of a whole table's state, kept
    beside each commit, would be computed by Spark jobs of its own. Together they take as
    long as the writing.
    """
    before = {key: spark.conf.get(key, None) for key in _PLAIN}
    for key in _PLAIN:
        spark.conf.set(key, "false")
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def is_table(spark: SparkSession, path: str) -> bool:
    """Whether there is a Delta table at the path."""
    return DeltaTable.isDeltaTable(spark, path)
