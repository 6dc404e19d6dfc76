"""Opens the memberships of one world version in a fixed state of their Delta table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pyarrow.dataset as ds
from deltalake.exceptions import DeltaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.table_places import lake_table
from schemas.errors import WorldError
from schemas.membership import (
    MEMBERSHIPS_TABLE,
    PEID,
    RUN_ID,
    RUNS_TABLE,
    SUB_ID,
    SUBSCRIPTIONS,
    UNRESOLVED_COUNT,
    VERSION,
)
from world.memberships.membership_parts import PlainState, plain_state
from world.memberships.run_commits import RunMark, chosen_run, newest_run, read_marks
from world.versions.delta_tables import delta_rows

SHOWN_VERSIONS: Final = 5


@dataclass(frozen=True, slots=True)
class CommitChoice:
    """Names the memberships to read: by world version, by the run that wrote them, or by commit.

    With nothing given, they are those that the last complete run wrote for the newest version.
    """

    version: int | None = None
    run: str | None = None
    commit: int | None = None


@dataclass(frozen=True, slots=True)
class OpenMemberships:
    """A world version in a state of the table.

    ``plain`` is set when tasks can read the files themselves. ``run`` is the run that wrote the
    state, or "" if the table ``runs`` does not name it.
    """

    table: str
    state: int
    version: int
    plain: PlainState | None
    run: str = ""

    def pairs(self, spark: SparkSession) -> DataFrame:
        """Return the rows (peid, subId), read by Spark."""
        rows = _rows(spark, self.table, self.state)
        return rows.where(F.col(VERSION) == self.version).select(
            F.col(PEID).cast("long").alias(PEID), F.col(SUB_ID).cast("long").alias(SUB_ID)
        )


def open_memberships(spark: SparkSession, path: str, wanted: CommitChoice) -> OpenMemberships:
    """Open the memberships; if they do not exist, a WorldError says which ones do.

    ``path`` is the table itself or the folder that holds it. The state of the table is fixed here,
    because Spark would otherwise read the newest state in each pass.
    """
    table = next((place for place in _places(path) if is_delta_table(spark, place)), None)
    if table is None:
        raise WorldError(f"no Delta table of memberships at {path}")
    marks = run_marks(spark, table)
    if wanted.run is not None:
        mark = chosen_run(marks, table, wanted.version, wanted.run)
        return _written_by(spark, table, mark)
    opened = _opened(spark, table, wanted.version, wanted.commit)
    if wanted.commit is not None:
        same = [mark for mark in marks if mark.commit == opened.state]
        newest = newest_run(same, opened.version)
    else:
        newest = newest_run(marks, opened.version)
    if newest is None or newest.commit == opened.state:
        return opened if newest is None else replace(opened, run=newest.run)
    return _written_by(spark, table, newest)


def is_delta_table(spark: SparkSession, path: str) -> bool:
    """Return whether a Delta table is at a path; Spark is asked where deltalake cannot say it."""
    try:
        return lake_table(spark, path).opened() is not None
    except (DeltaError, OSError):
        pass
    try:
        return bool(spark.read.format("delta").load(path).columns)
    except AnalysisException:
        return False


def resolved_counts(spark: SparkSession, opened: OpenMemberships) -> tuple[int, int] | None:
    """Return how many subscriptions the run had, and how many unresolved; None if unknown."""
    try:
        runs = lake_table(spark, _runs_path(opened.table)).opened()
        names = {field.name for field in runs.schema().fields} if runs is not None else set()
        if runs is None or not {RUN_ID, SUBSCRIPTIONS, UNRESOLVED_COUNT} <= names:
            return None
        columns = [RUN_ID, SUBSCRIPTIONS, UNRESOLVED_COUNT]
        rows = delta_rows(runs, columns, ds.field(RUN_ID) == opened.run).to_pylist()
    except (DeltaError, OSError):
        return None
    # A run that one process computed has a row without these numbers.
    counted = [row for row in rows if row[SUBSCRIPTIONS] is not None]
    return (counted[-1][SUBSCRIPTIONS], counted[-1][UNRESOLVED_COUNT] or 0) if counted else None


def _written_by(spark: SparkSession, table: str, mark: RunMark) -> OpenMemberships:
    return replace(_opened(spark, table, mark.version, mark.commit), run=mark.run)


def _opened(
    spark: SparkSession, table: str, version: int | None, commit: int | None
) -> OpenMemberships:
    """Open the state after a commit, or the newest state."""
    plain = plain_state(lake_table(spark, table), commit)
    if plain is not None:
        state, columns = plain.state, list(plain.columns)
    else:
        state = _newest_state(spark, table) if commit is None else commit
        try:
            columns = _rows(spark, table, state).columns
        except PySparkException as error:
            raise WorldError(
                f"{table} has no commit {state}, or its log does not have it any more"
            ) from error
    missing = [name for name in (PEID, SUB_ID, VERSION) if name not in columns]
    if missing:
        raise WorldError(f"{table} is no table of memberships: it lacks {', '.join(missing)}")
    if version is None or plain is None or version not in plain.files:
        version = _known(spark, table, state, plain, version)
    return OpenMemberships(table, state, version, plain)


def _places(path: str) -> tuple[str, str]:
    folder = path.rstrip("/")
    return folder, f"{folder}/{MEMBERSHIPS_TABLE}"


def _runs_path(table: str) -> str:
    return f"{table.rpartition('/')[0]}/{RUNS_TABLE}"


def run_marks(spark: SparkSession, table: str) -> list[RunMark]:
    """Return the complete runs beside the table; none where only Spark reads their table."""
    try:
        return read_marks(lake_table(spark, _runs_path(table)).opened())
    except (DeltaError, OSError):
        return []


def _newest_state(spark: SparkSession, table: str) -> int:
    quoted = table.replace("`", "``")
    [state] = spark.sql(f"DESCRIBE HISTORY delta.`{quoted}` LIMIT 1").collect()
    return int(state["version"])


def _rows(spark: SparkSession, table: str, state: int) -> DataFrame:
    return spark.read.format("delta").option("versionAsOf", state).load(table)


def _known(
    spark: SparkSession, table: str, state: int, plain: PlainState | None, version: int | None
) -> int:
    """Return the version if it was resolved, also if no subscription has a member in it."""
    known = set(plain.files) if plain else _versions(_rows(spark, table, state))
    runs = _runs_path(table)
    if is_delta_table(spark, runs):
        known |= _versions(spark.read.format("delta").load(runs))
    chosen = max(known, default=None) if version is None else version
    if chosen is None or chosen not in known:
        shown = ", ".join(str(number) for number in sorted(known)[-SHOWN_VERSIONS:]) or "none"
        raise WorldError(f"{table} has no memberships of world version {chosen}; it has {shown}")
    return chosen


def _versions(rows: DataFrame) -> set[int]:
    return {row[0] for row in rows.select(VERSION).distinct().collect()}
