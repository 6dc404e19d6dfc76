"""A world version as Spark reads it: its facts and its entities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.spark_errors import spark_errors_as
from schemas.entity import (
    CATEGORIES,
    CHECKSUM,
    ENTITIES_TABLE,
    ENTITY_COUNT,
    GEOMETRY,
    PEID,
    VERSION,
    VERSIONS_TABLE,
)
from schemas.errors import WorldError

SHOWN_VERSIONS: Final = 5


@dataclass(frozen=True, slots=True)
class WorldVersion:
    """One complete version; ``entities`` has peid, categories and geometry (WKB)."""

    path: str
    version: int
    checksum: str
    entity_count: int
    entities: DataFrame

    def table(self, name: str) -> str:
        """Where a table beside the entities lies."""
        return f"{self.path}/{name}"


def open_world(spark: SparkSession, path: str, version: int | None) -> WorldVersion:
    """The version, the newest when none is given; a WorldError when it is not whole."""
    folder = path.rstrip("/")
    with spark_errors_as(WorldError, f"no world at {folder}"):
        versions = spark.read.format("delta").load(f"{folder}/{VERSIONS_TABLE}")
        rows = versions.select(VERSION, CHECKSUM, ENTITY_COUNT).collect()
    known = {row[VERSION]: row for row in rows}
    chosen = max(known, default=None) if version is None else version
    if chosen is None or chosen not in known:
        shown = ", ".join(str(number) for number in sorted(known)[-SHOWN_VERSIONS:]) or "none"
        raise WorldError(f"world {folder} has no version {chosen} (there: {shown})")
    facts = known[chosen]
    entities = _entities(spark, folder, chosen, facts[ENTITY_COUNT])
    return WorldVersion(folder, chosen, facts[CHECKSUM], facts[ENTITY_COUNT], entities)


def _entities(spark: SparkSession, folder: str, version: int, expected: int) -> DataFrame:
    with spark_errors_as(WorldError, f"world {folder} cannot be read"):
        table = spark.read.format("delta").load(f"{folder}/{ENTITIES_TABLE}")
        rows = table.where(F.col(VERSION) == version).select(
            F.col(PEID).cast("long").alias(PEID), CATEGORIES, GEOMETRY
        )
        found = rows.count()
    if found != expected:
        raise WorldError(
            f"world {folder}: version {version} should have {expected} entities, "
            f"its table has {found}"
        )
    return rows
