"""The memberships of one world version, read from Delta in one unchanging state."""

from __future__ import annotations

from typing import Final

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.errors import WorldError
from schemas.membership import MEMBERSHIPS_TABLE, PEID, RUNS_TABLE, SUB_ID, VERSION

SHOWN_VERSIONS: Final = 5


def open_memberships(spark: SparkSession, path: str, version: int | None) -> tuple[DataFrame, int]:
    """Rows (peid, subId) of a version, the newest when none is given, and its number.

    ``path`` is the table itself or the folder that holds it. The state of the table is fixed
    here: Spark would otherwise look for the newest one at each of our passes.
    """
    table = next((place for place in _places(path) if DeltaTable.isDeltaTable(spark, place)), None)
    if table is None:
        raise WorldError(f"no Delta table of memberships at {path}")
    [state] = DeltaTable.forPath(spark, table).history(1).select("version").collect()
    rows = spark.read.format("delta").option("versionAsOf", state["version"]).load(table)
    missing = [name for name in (PEID, SUB_ID, VERSION) if name not in rows.columns]
    if missing:
        raise WorldError(f"{table} is no table of memberships: it lacks {', '.join(missing)}")
    known = _versions(spark, table, rows)
    chosen = max(known, default=None) if version is None else version
    if chosen is None or chosen not in known:
        shown = ", ".join(str(number) for number in sorted(known)[-SHOWN_VERSIONS:]) or "none"
        raise WorldError(f"{table} has no memberships of world version {chosen}; it has {shown}")
    pairs = rows.where(F.col(VERSION) == chosen).select(
        F.col(PEID).cast("long").alias(PEID), F.col(SUB_ID).cast("long").alias(SUB_ID)
    )
    return pairs, chosen


def _places(path: str) -> tuple[str, str]:
    folder = path.rstrip("/")
    return folder, f"{folder}/{MEMBERSHIPS_TABLE}"


def _versions(spark: SparkSession, table: str, rows: DataFrame) -> set[int]:
    """Versions that were resolved, also those in which no subscription has a member."""
    known = {row[0] for row in rows.select(VERSION).distinct().collect()}
    runs = f"{table.rpartition('/')[0]}/{RUNS_TABLE}"
    if DeltaTable.isDeltaTable(spark, runs):
        finished = spark.read.format("delta").load(runs)
        known |= {row[0] for row in finished.select(VERSION).distinct().collect()}
    return known
