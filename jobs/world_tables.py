"""A world version as Spark reads it: its facts and its entities."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

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
# How Sedona reports what a function could not do, at the end of the story of the task.
_IN_EXPRESSION: Final = re.compile(
    r"evaluating expression (?P<expression>\w+) .*cause: (?P<cause>.*)"
)


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
    try:
        versions = spark.read.format("delta").load(f"{folder}/{VERSIONS_TABLE}")
        rows = versions.select(VERSION, CHECKSUM, ENTITY_COUNT).collect()
    except PySparkException as error:
        raise WorldError(f"no world at {folder}: {first_line(error)}") from error
    known = {row[VERSION]: row for row in rows}
    chosen = max(known, default=None) if version is None else version
    if chosen is None or chosen not in known:
        shown = ", ".join(str(number) for number in sorted(known)[-SHOWN_VERSIONS:]) or "none"
        raise WorldError(f"world {folder} has no version {chosen} (there: {shown})")
    facts = known[chosen]
    entities = _entities(spark, folder, chosen, facts[ENTITY_COUNT])
    return WorldVersion(folder, chosen, facts[CHECKSUM], facts[ENTITY_COUNT], entities)


def _entities(spark: SparkSession, folder: str, version: int, expected: int) -> DataFrame:
    try:
        table = spark.read.format("delta").load(f"{folder}/{ENTITIES_TABLE}")
        rows = table.where(F.col(VERSION) == version).select(
            F.col(PEID).cast("long").alias(PEID), CATEGORIES, GEOMETRY
        )
        found = rows.count()
    except PySparkException as error:
        raise WorldError(f"world {folder} cannot be read: {first_line(error)}") from error
    if found != expected:
        raise WorldError(
            f"world {folder}: version {version} should have {expected} entities, "
            f"its table has {found}"
        )
    return rows


def first_line(error: BaseException) -> str:
    """What Spark says, without the pages that follow."""
    said = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
    lines = str(said).strip().splitlines()
    first = lines[0] if lines else type(error).__name__
    if failed := _IN_EXPRESSION.search(first):
        return f"{failed['expression']}: {failed['cause']}"
    return first
