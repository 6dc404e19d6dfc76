"""Related pairs of a world version, kept beside the world: computed once, reused by every run.

A version whose pairs are not there yet takes over those of an earlier one wherever both ends
have the same geometry, and joins only what changed. Rows are written first and the row in
``relatedVersions`` last, so a killed run leaves nothing that anybody would read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.delta_tables import is_table, replace_version
from jobs.related_build import RelatedBuild
from jobs.world_tables import WorldVersion
from schemas.entity import CATEGORIES, CHECKSUM, CREATED_AT, RELATED_TABLE, VERSION
from schemas.related import (
    CATEGORY_SET,
    CATEGORY_SETS_TABLE,
    DERIVED_FROM,
    DIAMETER,
    HEAVY,
    METHOD,
    PAIR_COUNT,
    PAIR_KINDS,
    RELATED_COLUMNS,
    RELATED_VERSION_COLUMNS,
    RELATED_VERSIONS_TABLE,
)

# Raise it whenever pairs or kinds could come out differently from before.
CURRENT_METHOD: Final = 2

_VERSION_TYPES: Final = (
    "version bigint, checksum string, method int, pairCount bigint, pairKinds array<int>, "
    "heavyReferences array<bigint>, diameter double, derivedFrom bigint, createdAt timestamp"
)


@dataclass(frozen=True, slots=True)
class RelatedWorld:
    """All that a run needs to know about who shares a point with whom."""

    pairs: DataFrame
    category_sets: DataFrame
    heavy: tuple[int, ...]
    pair_kinds: tuple[int, ...]
    pair_count: int
    diameter: float
    origin: str

    def names_of_category_sets(self) -> dict[int, list[str]]:
        """The categories of each set: the vocabulary of the world, small however large it is."""
        return {row[CATEGORY_SET]: row[CATEGORIES] for row in self.category_sets.collect()}


def ensure_related(
    spark: SparkSession, world: WorldVersion, say: Callable[[str], None]
) -> RelatedWorld:
    """The related pairs of the version, computed and kept when nobody has done so before."""
    markers = world.table(RELATED_VERSIONS_TABLE)
    known = _usable_markers(spark, markers)
    marker = known.get(world.version)
    if marker is not None and marker[CHECKSUM] == world.checksum:
        return _opened(spark, world, marker, "reused")
    if marker is not None:
        # What an older state of the version left must not vouch for the rows that come now.
        DeltaTable.forPath(spark, markers).delete(F.col(VERSION) == world.version)
    base = max((number for number in known if number != world.version), default=None)
    say("no related pairs of this version yet: joining all that share a point")
    build = RelatedBuild(spark, world, base)
    try:
        marker = _write(spark, world, build)
    finally:
        build.release()
    origin = "computed" if marker[DERIVED_FROM] is None else f"derived from version {base}"
    return _opened(spark, world, marker, origin)


def _usable_markers(spark: SparkSession, path: str) -> dict[int, Row]:
    if not is_table(spark, path):
        return {}
    rows = spark.read.format("delta").load(path)
    usable = rows.where(F.col(METHOD) == CURRENT_METHOD).orderBy(CREATED_AT)
    return {row[VERSION]: row for row in usable.collect()}


def _opened(spark: SparkSession, world: WorldVersion, marker: Row, origin: str) -> RelatedWorld:
    def of_version(table: str) -> DataFrame:
        rows = spark.read.format("delta").load(world.table(table))
        return rows.where(F.col(VERSION) == world.version)

    return RelatedWorld(
        pairs=of_version(RELATED_TABLE).drop(VERSION),
        category_sets=of_version(CATEGORY_SETS_TABLE).select(CATEGORY_SET, CATEGORIES),
        heavy=tuple(marker[HEAVY]),
        pair_kinds=tuple(marker[PAIR_KINDS]),
        pair_count=marker[PAIR_COUNT],
        diameter=marker[DIAMETER],
        origin=origin,
    )


def _write(spark: SparkSession, world: WorldVersion, build: RelatedBuild) -> Row:
    """Rows first, the marker last; the marker."""
    version = F.lit(world.version).cast("bigint").alias(VERSION)
    replace_version(
        build.category_sets.select(version, CATEGORY_SET, CATEGORIES).coalesce(1),
        world.table(CATEGORY_SETS_TABLE),
        world.version,
    )
    pairs = build.pairs().select(version, *RELATED_COLUMNS[1:])
    replace_version(pairs, world.table(RELATED_TABLE), world.version)
    facts = build.facts()
    marker = Row(*RELATED_VERSION_COLUMNS)(
        world.version,
        world.checksum,
        CURRENT_METHOD,
        facts.pair_count,
        list(facts.pair_kinds),
        list(build.heavy),
        facts.diameter,
        facts.derived_from,
        datetime.now(UTC),
    )
    rows = spark.createDataFrame([tuple(marker)], _VERSION_TYPES).coalesce(1)
    rows.write.format("delta").mode("append").save(world.table(RELATED_VERSIONS_TABLE))
    return marker
