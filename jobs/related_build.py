"""The work behind ``related_tables``: from entities to the pairs of one version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses
from pyspark.storagelevel import StorageLevel

from jobs.world_tables import WorldVersion
from schemas.entity import ENTITIES_TABLE, GEOMETRY, PEID, RELATED_TABLE, VERSION
from schemas.related import CATEGORY_SET, ENTITY, PAIR_KIND, REFERENCE
from spatial_udfs.sedona_entities import category_sets, placed_entities, vocabulary_of
from spatial_udfs.sedona_pair_matrices import CHANGED, WKB
from spatial_udfs.sedona_related import related_rows
from spatial_udfs.sedona_salting import CROWDED, heavy_references, salted_pairs, spread
from spatial_udfs.world_tiles import LARGEST_SAMPLE, Places, cut_into_tiles

# When more than this share has changed, taking pairs over saves nothing.
MOST_CHANGED: Final = 0.5
_COUNT: Final = "count"


@dataclass(frozen=True, slots=True)
class RelatedFacts:
    """What the row in ``relatedVersions`` says."""

    pair_count: int
    pair_kinds: tuple[int, ...]
    heavy: tuple[int, ...]
    diameter: float
    derived_from: int | None


@dataclass(frozen=True, slots=True)
class _Extent:
    """How far the entities reach, how many of them changed, and where some of them lie."""

    diameter: float
    changed_share: float
    places: Places


class RelatedBuild:
    """Pairs of one version; ``base`` is a version whose pairs may be taken over."""

    def __init__(self, spark: SparkSession, world: WorldVersion, base: int | None) -> None:
        """Compute the pairs; executors keep them, and the entities, until ``release``."""
        self._spark = spark
        self._world = world
        self._kept: list[DataFrame] = []
        self.vocabulary = vocabulary_of(world.entities)
        self._category_sets = category_sets(spark, self.vocabulary)
        self._base = base
        self.entities = self._place(base)
        extent = self._measure()
        if base is not None and extent.changed_share > MOST_CHANGED:
            self._base = None
            self.entities = self._place(None)
        self._rows = self._keep(self._directed_pairs(extent.places))
        counted = self._rows.groupBy(PAIR_KIND).count().collect()
        heavy = heavy_references(self._rows).collect()
        self.facts = RelatedFacts(
            pair_count=sum(row[_COUNT] for row in counted),
            # A few hundred at most, however large the world.
            pair_kinds=tuple(sorted(row[PAIR_KIND] for row in counted)),
            heavy=tuple(row[REFERENCE] for row in heavy),
            diameter=extent.diameter,
            derived_from=self._base,
        )
        self.pairs = salted_pairs(self._rows, self.facts.heavy).drop(CROWDED)

    def release(self) -> None:
        """Let Spark forget what it kept."""
        for frame in self._kept:
            frame.unpersist()

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    def _place(self, base: int | None) -> DataFrame:
        """Placed entities with CHANGED: whether the base version has them as they are."""
        # Few files hold many entities; their geometry is work for all tasks.
        tasks = self._spark.sparkContext.defaultParallelism * 4
        entities = self._world.entities.repartition(tasks, PEID).withColumn(WKB, F.col(GEOMETRY))
        if base is None:
            marked = entities.withColumn(CHANGED, F.expr("true"))
        else:
            before = self._spark.read.format("delta").load(self._world.table(ENTITIES_TABLE))
            known = before.where(F.col(VERSION) == base).select(PEID, F.col(GEOMETRY).alias("old"))
            same = F.col(GEOMETRY).eqNullSafe(F.col("old"))
            marked = entities.join(known, on=PEID, how="left").withColumn(CHANGED, ~same)
        return self._keep(placed_entities(marked, self._category_sets, WKB, CHANGED))

    def _measure(self) -> _Extent:
        """One pass over all entities: the first, so it places them too."""
        west, south = F.expr(f"ST_XMin({GEOMETRY})"), F.expr(f"ST_YMin({GEOMETRY})")
        east, north = F.expr(f"ST_XMax({GEOMETRY})"), F.expr(f"ST_YMax({GEOMETRY})")
        one_of = -(-self._world.entity_count // LARGEST_SAMPLE) or 1
        drawn = F.when(spread(F.col(PEID), one_of) == 0, F.array(west, south))
        row = self.entities.agg(
            F.min(west).alias("west"),
            F.min(south).alias("south"),
            F.max(east).alias("east"),
            F.max(north).alias("north"),
            F.avg(F.col(CHANGED).cast("int")).alias("share"),
            F.collect_list(drawn).alias("places"),
        ).collect()[0]
        places = np.array(row["places"], np.float64).reshape(-1, 2)
        if row["west"] is None:
            return _Extent(0.0, 1.0, places)
        # No two entities are further apart than the box around all is wide.
        diameter = np.hypot(row["east"] - row["west"], row["north"] - row["south"])
        return _Extent(float(diameter), float(row["share"]), places)

    def _directed_pairs(self, places: Places) -> DataFrame:
        tiles = cut_into_tiles(places, self._world.entity_count)
        fresh = related_rows(self.entities, tiles, self._spark.sparkContext.defaultParallelism)
        return fresh if self._base is None else fresh.unionByName(self._taken_over(self._base))

    def _taken_over(self, base: int) -> DataFrame:
        """Pairs of the base version of which both ends are still there and unchanged."""
        pairs = self._spark.read.format("delta").load(self._world.table(RELATED_TABLE))
        same = self.entities.where(~F.col(CHANGED))
        references = same.select(F.col(PEID).alias(REFERENCE))
        entities = same.select(F.col(PEID).alias(ENTITY), CATEGORY_SET)
        return (
            pairs.where(F.col(VERSION) == base)
            .select(REFERENCE, ENTITY, PAIR_KIND)
            .join(references, on=REFERENCE, how="left_semi")
            .join(entities, on=ENTITY, how="inner")
            .select(REFERENCE, ENTITY, PAIR_KIND, CATEGORY_SET, F.lit(True).alias(CROWDED))  # noqa: FBT003
        )
