"""The memberships of one world version, read from Delta in one unchanging state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.membership_parts import PlainState, plain_state
from schemas.errors import WorldError
from schemas.membership import MEMBERSHIPS_TABLE, PEID, RUNS_TABLE, SUB_ID, VERSION

SHOWN_VERSIONS: Final = 5


@dataclass(frozen=True, slots=True)
class OpenMemberships:
    """A world version in a state of the table; ``plain``: its files may be read by themselves."""

    table: str
    state: int
    version: int
    plain: PlainState | None

    def pairs(self, spark: SparkSession) -> DataFrame:
        """Rows (peid, subId) as Spark reads them."""
        rows = _rows(spark, self.table, self.state)
        return rows.where(F.col(VERSION) == self.version).select(
            F.col(PEID).cast("long").alias(PEID), F.col(SUB_ID).cast("long").alias(SUB_ID)
        )


def open_memberships(spark: SparkSession, path: str, version: int | None) -> OpenMemberships:
    """A version, the newest when none is given.

    ``path`` is the table itself or the folder that holds it. The state of the table is fixed
    here: Spark would otherwise look for the newest one at each of our passes.
    """
    table = next((place for place in _places(path) if DeltaTable.isDeltaTable(spark, place)), None)
    if table is None:
        raise WorldError(f"no Delta table of memberships at {path}")
    plain = plain_state(spark, table)
    state = _newest_state(spark, table) if plain is None else plain.state
    columns = _rows(spark, table, state).columns if plain is None else plain.columns
    missing = [name for name in (PEID, SUB_ID, VERSION) if name not in columns]
    if missing:
        raise WorldError(f"{table} is no table of memberships: it lacks {', '.join(missing)}")
    if version is None or plain is None or version not in plain.files:
        version = _known(spark, table, state, plain, version)
    return OpenMemberships(table, state, version, plain)


def _places(path: str) -> tuple[str, str]:
    folder = path.rstrip("/")
    return folder, f"{folder}/{MEMBERSHIPS_TABLE}"


def _newest_state(spark: SparkSession, table: str) -> int:
    [state] = DeltaTable.forPath(spark, table).history(1).select("version").collect()
    return int(state["version"])


def _rows(spark: SparkSession, table: str, state: int) -> DataFrame:
    return spark.read.format("delta").option("versionAsOf", state).load(table)


def _known(
    spark: SparkSession, table: str, state: int, plain: PlainState | None, version: int | None
) -> int:
    """The version, if it was resolved: also one in which no subscription has a member."""
    known = set(plain.files) if plain else _versions(_rows(spark, table, state))
    runs = f"{table.rpartition('/')[0]}/{RUNS_TABLE}"
    if DeltaTable.isDeltaTable(spark, runs):
        known |= _versions(spark.read.format("delta").load(runs))
    chosen = max(known, default=None) if version is None else version
    if chosen is None or chosen not in known:
        shown = ", ".join(str(number) for number in sorted(known)[-SHOWN_VERSIONS:]) or "none"
        raise WorldError(f"{table} has no memberships of world version {chosen}; it has {shown}")
    return chosen


def _versions(rows: DataFrame) -> set[int]:
    return {row[0] for row in rows.select(VERSION).distinct().collect()}
