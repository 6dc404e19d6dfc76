"""Where entities are, for the joins that measure: read when asked for, or kept for many askers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses
from pyspark.storagelevel import StorageLevel

from schemas.entity import CATEGORIES, GEOMETRY, PEID
from schemas.related import CATEGORY_SET, ENTITY, REFERENCE
from spatial_udfs.sedona_entities import SHAPE, placed_entities

ORIGIN: Final = "origin"  # geometry of the reference
ORIGIN_SHAPE: Final = "originShape"
TARGET: Final = "target"  # geometry of the entity


class EntityPlaces:
    """Geometry, shape and category set of the entities of a world version.

    A geometry is read from its bytes. When one level alone asks, only what it asks for is
    read; when several do (``often``), all is read once and kept.
    """

    def __init__(
        self,
        entities: DataFrame,
        category_sets: DataFrame,
        *,
        kept: DataFrame | None,
        often: bool,
    ) -> None:
        """``entities`` as the world stores them, ``kept`` where they are in memory already."""
        self._entities = entities
        self._sets = F.broadcast(category_sets.select(CATEGORIES, CATEGORY_SET))
        self._kept, self._own = kept, None
        if often and kept is None:
            self._own = placed_entities(entities, self._sets).persist(StorageLevel.MEMORY_AND_DISK)
            self._kept = self._own

    def every(self) -> DataFrame:
        """All entities: peid, shape, category set, geometry."""
        return placed_entities(self._entities, self._sets) if self._kept is None else self._kept

    def targets(self, sets: Sequence[int]) -> DataFrame:
        """Entities of these category sets: entity, shape, category set, target."""
        if self._kept is None:
            wanted = self._sets.where(F.col(CATEGORY_SET).isin(*sets))
            sorted_names = F.array_sort(F.array_distinct(CATEGORIES))
            chosen = self._entities.withColumn(CATEGORIES, sorted_names).join(
                F.broadcast(wanted.select(CATEGORIES)), on=CATEGORIES, how="left_semi"
            )
            found = placed_entities(chosen, self._sets)
        else:
            found = self._kept.where(F.col(CATEGORY_SET).isin(*sets))
        return found.select(
            F.col(PEID).alias(ENTITY), SHAPE, CATEGORY_SET, F.col(GEOMETRY).alias(TARGET)
        )

    def origins(self, references: DataFrame, *, few: bool) -> DataFrame:
        """The rows of ``references`` (with REFERENCE) that exist, with shape and geometry."""
        asked = references.withColumnRenamed(REFERENCE, PEID)
        carried = [name for name in asked.columns if name != PEID]
        if few:
            asked = F.broadcast(asked)
        if self._kept is None:
            chosen = self._entities.join(asked, on=PEID, how="inner")
            found = placed_entities(chosen, self._sets, *carried)
        else:
            found = self._kept.join(asked, on=PEID, how="inner")
        return found.select(
            F.col(PEID).alias(REFERENCE),
            *carried,
            F.col(SHAPE).alias(ORIGIN_SHAPE),
            F.col(GEOMETRY).alias(ORIGIN),
        )

    def release(self) -> None:
        """Let Spark forget what was kept."""
        if self._own is not None:
            self._own.unpersist()
