"""Related pairs of a world version, kept beside the world: computed once, reused by every run.

A version whose pairs are not there yet takes over those of an earlier one wherever both ends
have the same geometry, and joins only what changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.delta_tables import is_table
from jobs.related_build import RelatedBuild
from jobs.related_writing import CURRENT_METHOD, RelatedWriting
from jobs.world_tables import WorldVersion
from schemas.entity import CHECKSUM, CREATED_AT, RELATED_TABLE, VERSION
from schemas.related import (
    DIAMETER,
    HEAVY,
    METHOD,
    PAIR_COUNT,
    PAIR_KINDS,
    RELATED_VERSIONS_TABLE,
    VOCABULARY,
)


@dataclass(frozen=True, slots=True)
class RelatedWorld:
    """All that a run needs to know about who shares a point with whom.

    Pairs that were computed just now are in memory, and a thread writes them meanwhile.
    """

    pairs: DataFrame
    # The categories of each set, by its number.
    vocabulary: list[list[str]]
    heavy: tuple[int, ...]
    pair_kinds: tuple[int, ...]
    pair_count: int
    diameter: float
    origin: str
    # The placed entities, where they are in memory.
    entities: DataFrame | None = None
    writing: RelatedWriting | None = None

    def finish(self) -> None:
        """Wait until the pairs are in their tables; what hindered them is raised here."""
        if self.writing is not None:
            self.writing.finish()

    def release(self) -> None:
        """Let Spark forget what is in memory, when nobody writes it any more."""
        if self.writing is not None:
            self.writing.release()


def ensure_related(
    spark: SparkSession, world: WorldVersion, say: Callable[[str], None]
) -> RelatedWorld:
    """The related pairs of the version, computed and kept when nobody has done so before.

    Whoever gets them calls ``finish`` before saying that the run is complete, and ``release``
    at the end, however it ends.
    """
    markers = world.table(RELATED_VERSIONS_TABLE)
    known = _usable_markers(spark, markers)
    marker = known.get(world.version)
    if marker is not None and marker[CHECKSUM] == world.checksum:
        return _opened(spark, world, marker)
    if marker is not None:
        # What an older state of the version left must not vouch for the rows that come now.
        DeltaTable.forPath(spark, markers).delete(F.col(VERSION) == world.version)
    base = max((number for number in known if number != world.version), default=None)
    say("no related pairs of this version yet: joining all that share a point")
    build = RelatedBuild(spark, world, base)
    facts = build.facts
    return RelatedWorld(
        pairs=build.pairs,
        vocabulary=build.vocabulary,
        entities=build.entities,
        heavy=facts.heavy,
        pair_kinds=facts.pair_kinds,
        pair_count=facts.pair_count,
        diameter=facts.diameter,
        origin="computed" if facts.derived_from is None else f"derived from version {base}",
        writing=RelatedWriting(spark, world, build),
    )


def _usable_markers(spark: SparkSession, path: str) -> dict[int, Row]:
    if not is_table(spark, path):
        return {}
    rows = spark.read.format("delta").load(path)
    usable = rows.where(F.col(METHOD) == CURRENT_METHOD).orderBy(CREATED_AT)
    return {row[VERSION]: row for row in usable.collect()}


def _opened(spark: SparkSession, world: WorldVersion, marker: Row) -> RelatedWorld:
    rows = spark.read.format("delta").load(world.table(RELATED_TABLE))
    return RelatedWorld(
        pairs=rows.where(F.col(VERSION) == world.version).drop(VERSION),
        vocabulary=[list(categories) for categories in marker[VOCABULARY]],
        heavy=tuple(marker[HEAVY]),
        pair_kinds=tuple(marker[PAIR_KINDS]),
        pair_count=marker[PAIR_COUNT],
        diameter=marker[DIAMETER],
        origin="reused",
    )
