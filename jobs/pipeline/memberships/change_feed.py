"""The table ``membershipChanges``: the rows that each run added and removed.

A run is compared with the last run that the feed has, so that all rows of the feed together are
the memberships of its last run. The first run of a feed adds all of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.memberships.memberships_table import (
    CommitChoice,
    OpenMemberships,
    is_delta_table,
    open_memberships,
    run_marks,
)
from schemas.errors import WorldError
from schemas.membership import (
    ADDED,
    CHANGE,
    CHANGES_TABLE,
    COMMIT,
    FROM_COMMIT,
    FROM_RUN,
    FROM_VERSION,
    PEID,
    REMOVED,
    RUN_ID,
    STAGE_NO,
    SUB_ID,
    VERSION,
)
from world.memberships.run_commits import RunMark

ROW: Final = (SUB_ID, PEID, STAGE_NO)
_SIDE: Final = "side"
_SIDES: Final = "sides"


def write_changes(
    spark: SparkSession, path: str, wanted: CommitChoice, say: Callable[[str], None]
) -> dict[str, int]:
    """Add what a run changed to the feed beside the memberships; return the numbers of rows.

    Doing it again for the same run replaces its rows. A WorldError says why a run cannot be added.
    """
    new = open_memberships(spark, path, wanted)
    if not new.run:
        raise WorldError(f"{new.table}: the table of runs does not say which run wrote commit "
                         f"{new.state}, so its changes have no name")  # fmt: skip
    feed = f"{new.table.rpartition('/')[0]}/{CHANGES_TABLE}"
    base = _base(spark, feed, new)
    changes = changed_rows(
        rows_of(spark, new.table, base), rows_of(spark, new.table, _mark(new))
    ).withColumns(
        {
            VERSION: F.lit(new.version).cast("long"),
            RUN_ID: F.lit(new.run),
            COMMIT: F.lit(new.state).cast("long"),
            FROM_VERSION: F.lit(None if base is None else base.version).cast("long"),
            FROM_RUN: F.lit(None if base is None else base.run).cast("string"),
            FROM_COMMIT: F.lit(None if base is None else base.commit).cast("long"),
        }
    )
    writer = changes.write.format("delta").partitionBy(VERSION).mode("overwrite")
    of_run = f"{VERSION} = {new.version} AND {RUN_ID} = '{new.run}'"
    writer.option("replaceWhere", of_run).save(feed)
    written = spark.read.format("delta").load(feed).where(of_run)
    counts = {row[CHANGE]: int(row["count"]) for row in written.groupBy(CHANGE).count().collect()}
    since = "the first run of the feed" if base is None else f"against run {base.run}"
    say(
        f"{CHANGES_TABLE}: run {new.run} added {counts.get(ADDED, 0):,} rows and removed "
        f"{counts.get(REMOVED, 0):,}, {since}"
    )
    return {ADDED: counts.get(ADDED, 0), REMOVED: counts.get(REMOVED, 0)}


def changed_rows(old: DataFrame, new: DataFrame) -> DataFrame:
    """Return the rows of one side alone, with the column ``change``."""
    sides = old.withColumn(_SIDE, F.lit(-1)).unionByName(new.withColumn(_SIDE, F.lit(1)))
    sums = sides.groupBy(*ROW).agg(F.sum(_SIDE).alias(_SIDES))
    change = F.when(F.col(_SIDES) > 0, ADDED).otherwise(REMOVED)
    return sums.where(F.col(_SIDES) != 0).select(*ROW, change.alias(CHANGE))


def rows_of(spark: SparkSession, table: str, mark: RunMark | None) -> DataFrame:
    """Return the memberships that a run wrote; none for None."""
    if mark is None:
        return spark.createDataFrame([], f"{SUB_ID} long, {PEID} long, {STAGE_NO} int")
    try:
        rows = spark.read.format("delta").option("versionAsOf", mark.commit).load(table)
    except PySparkException as error:
        raise WorldError(
            f"{table} has no commit {mark.commit} any more, the one of run {mark.run}: remove "
            f"the table {CHANGES_TABLE} beside it, and the feed begins with this run"
        ) from error
    return rows.where(F.col(VERSION) == mark.version).select(*ROW)


def _base(spark: SparkSession, feed: str, new: OpenMemberships) -> RunMark | None:
    """Return the run to compare with: the last one before this run that the feed has."""
    if not is_delta_table(spark, feed):
        return None
    known = spark.read.format("delta").load(feed).select(RUN_ID, FROM_RUN).distinct().collect()
    bases = {row[RUN_ID]: row[FROM_RUN] for row in known}
    if not bases:
        return None
    marks = run_marks(spark, new.table)
    if new.run in bases:  # it is written again
        if bases[new.run] is None:
            return None
        earlier = [mark for mark in marks if mark.run == bases[new.run]]
    else:
        end = max((place for place, mark in enumerate(marks) if mark.run == new.run), default=0)
        earlier = [mark for mark in marks[:end] if mark.run in bases]
    if not earlier:
        raise WorldError(
            f"{feed} has no run before {new.run}; add runs in the order in which they were made"
        )
    return earlier[-1]


def _mark(opened: OpenMemberships) -> RunMark:
    return RunMark(opened.version, opened.run, opened.state, 0)
