"""Disjoint pairs within reach: one index-backed join for all distances of a level.

A reference is joined once, with its widest reach. A node with a smaller reach takes the nearest of
the pairs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.entity import CATEGORIES, ENTITY, GEOMETRY, PEID, REFERENCE

REACH: Final = "reach"
DISTANCE: Final = "distance"

_ORIGIN: Final = "origin"
_TARGET: Final = "target"
# Closer pairs are tested for being disjoint, because rounding could hide it.
_SURELY_APART: Final = 0.001
# Boxes are widened by more than rounding can change; the exact distance decides afterwards.
_WIDENED: Final = f"{REACH} + 1e-6 + 1e-9 * {REACH}"


def near_pairs(
    asked: DataFrame, entities: DataFrame, categories: Iterable[str], *, few: bool
) -> DataFrame:
    """Return disjoint pairs (reference, entity, distance) within the reach that is asked for.

    ``asked`` has REFERENCE, REACH and GEOMETRY (WKB), each reference once. ``entities`` have PEID,
    CATEGORIES and GEOMETRY; of these, those with one of the ``categories`` are measured to.
    """
    geometry = F.expr(f"ST_GeomFromWKB({GEOMETRY})")
    origins = asked.select(REFERENCE, REACH, geometry.alias(_ORIGIN))
    wanted = F.array(*(F.lit(name) for name in sorted(categories)))
    targets = entities.where(F.arrays_overlap(F.col(CATEGORIES), wanted)).select(
        F.col(PEID).alias(ENTITY), geometry.alias(_TARGET)
    )
    met = F.expr(f"ST_DWithin({_ORIGIN}, {_TARGET}, {_WIDENED})")
    distance = F.expr(f"ST_Distance({_ORIGIN}, {_TARGET})")
    # Few origins: every task searches its entities for all. Many: both are divided.
    pairs = (F.broadcast(origins) if few else origins).join(targets, on=met, how="inner")
    measured = pairs.withColumn(DISTANCE, distance).where(F.col(DISTANCE) <= F.col(REACH))
    apart = (F.col(DISTANCE) > _SURELY_APART) | ~F.expr(f"ST_Intersects({_ORIGIN}, {_TARGET})")
    return measured.where(apart).select(REFERENCE, ENTITY, DISTANCE)
