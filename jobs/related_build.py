"""The work behind ``related_tables``: from entities to the pairs of one version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses
from pyspark.storagelevel import StorageLevel

from jobs.world_tables import WorldVersion
from schemas.entity import ENTITIES_TABLE, GEOMETRY, PEID, RELATED_TABLE, VERSION
from schemas.related import CATEGORY_SET, ENTITY, PAIR_COUNT, PAIR_KIND, PAIR_KINDS, REFERENCE
from spatial_udfs.sedona_entities import category_sets, placed_entities
from spatial_udfs.sedona_related import CHANGED, related_rows
from spatial_udfs.sedona_salting import heavy_references, salted_pairs

# When more than this share has changed, taking pairs over saves nothing.
MOST_CHANGED: Final = 0.5


@dataclass(frozen=True, slots=True)
class RelatedFacts:
    """What the row in ``relatedVersions`` says."""

    pair_count: int
    pair_kinds: tuple[int, ...]
    diameter: float
    derived_from: int | None


class RelatedBuild:
    """Pairs of one version; ``base`` is a version whose pairs may be taken over."""

    def __init__(self, spark: SparkSession, world: WorldVersion, base: int | None) -> None:
        """Place the entities; Spark keeps them, because the join passes over them repeatedly."""
        self._spark = spark
        self._world = world
        self._kept: list[DataFrame] = []
        self._observed = Observation("related pairs")
        self.category_sets = self._keep(category_sets(world.entities))
        self._base = base
        self._placed = self._place(base)
        self._diameter, changed_share = self._measure()
        if base is not None and changed_share > MOST_CHANGED:
            self._base = None
            self._placed = self._place(None)
        self._rows = self._directed_pairs()
        self.heavy = tuple(row[REFERENCE] for row in heavy_references(self._rows).collect())

    def pairs(self) -> DataFrame:
        """Rows (reference, salt, entity, pair kind, category set); written once."""
        salted = salted_pairs(self._rows, self.heavy)
        return salted.observe(
            self._observed,
            F.count(F.lit(1)).alias(PAIR_COUNT),
            # A few hundred at most, however large the world. Observations carry no lists.
            F.array_join(F.collect_set(PAIR_KIND), ",").alias(PAIR_KINDS),
        )

    def facts(self) -> RelatedFacts:
        """What was written; known when ``pairs`` has been."""
        seen = self._observed.get
        kinds = tuple(sorted(int(kind) for kind in seen[PAIR_KINDS].split(",") if kind))
        return RelatedFacts(seen[PAIR_COUNT], kinds, self._diameter, self._base)

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
        entities = self._world.entities.repartition(tasks, PEID)
        if base is None:
            marked = entities.withColumn(CHANGED, F.expr("true"))
        else:
            before = self._spark.read.format("delta").load(self._world.table(ENTITIES_TABLE))
            known = before.where(F.col(VERSION) == base).select(PEID, F.col(GEOMETRY).alias("old"))
            same = F.col(GEOMETRY).eqNullSafe(F.col("old"))
            marked = entities.join(known, on=PEID, how="left").withColumn(CHANGED, ~same)
        return self._keep(placed_entities(marked, self.category_sets, CHANGED))

    def _measure(self) -> tuple[float, float]:
        """No two entities are further apart than the box around all is wide."""
        bounds = [
            F.expr(f"{outer}(ST_{side}({GEOMETRY}))").alias(side)
            for side, outer in (("XMin", "min"), ("YMin", "min"), ("XMax", "max"), ("YMax", "max"))
        ]
        changed = F.avg(F.col(CHANGED).cast("int")).alias("share")
        row = self._placed.agg(*bounds, changed).collect()[0]
        if row["XMin"] is None:
            return 0.0, 1.0
        width, height = row["XMax"] - row["XMin"], row["YMax"] - row["YMin"]
        return float((width**2 + height**2) ** 0.5), float(row["share"])

    def _directed_pairs(self) -> DataFrame:
        fresh = self._keep(related_rows(self._placed))
        return fresh if self._base is None else fresh.unionByName(self._taken_over(self._base))

    def _taken_over(self, base: int) -> DataFrame:
        """Pairs of the base version of which both ends are still there and unchanged."""
        pairs = self._spark.read.format("delta").load(self._world.table(RELATED_TABLE))
        same = self._placed.where(~F.col(CHANGED))
        references = same.select(F.col(PEID).alias(REFERENCE))
        entities = same.select(F.col(PEID).alias(ENTITY), CATEGORY_SET)
        return (
            pairs.where(F.col(VERSION) == base)
            .select(REFERENCE, ENTITY, PAIR_KIND)
            .join(references, on=REFERENCE, how="left_semi")
            .join(entities, on=ENTITY, how="inner")
            .select(REFERENCE, ENTITY, PAIR_KIND, CATEGORY_SET)
        )
