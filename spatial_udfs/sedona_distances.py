"""Disjoint pairs within reach: one index-backed join for all distances of a level.

A reference may be asked for at many reaches. They are put into buckets, each twice as wide as
the one before, and the reference is joined once for each bucket: so thousands of distances
cost a handful of rows, and one giant reach does not widen all the others.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.entity import GEOMETRY, PEID
from schemas.related import CATEGORY_SET, ENTITY, REFERENCE
from spatial_udfs.sedona_categories import CATS
from spatial_udfs.sedona_conditions import COND, REACH, span_holds
from spatial_udfs.sedona_entities import SHAPE
from spatial_udfs.sedona_pair_kinds import shape_pair
from spatial_udfs.sedona_salting import spread
from spatial_udfs.sedona_stage_graph import NODE
from spatial_udfs.sedona_stages import Lookups

DISTANCE: Final = "distance"
SHAPE_PAIR: Final = "shapePair"
SPREAD: Final = "spread"
# How many tasks share the pairs of one reference and bucket.
SPREAD_OVER: Final = 8

_BUCKET: Final = "bucket"
# Disjoint or not is asked only where rounding could hide it: beyond, a distance tells.
_SURELY_APART: Final = 0.001
# Boxes are widened by more than rounding can change; the exact distance decides afterwards.
_ROOM: Final = "1e-6 + 1e-9 * "


def near_pairs(references: DataFrame, lookups: Lookups) -> DataFrame:
    """Requests (of ``references``, with a reach) with every disjoint pair within that reach.

    Columns of the requests, then entity, distance, pair of shapes; only selected categories.
    """
    asked = references.where(F.col(REACH).isNotNull()).withColumn(_BUCKET, _bucket())
    pairs = _measured_pairs(asked, lookups)
    every_part = F.explode(F.sequence(F.lit(0), F.lit(SPREAD_OVER - 1)))
    return (
        asked.withColumn(SPREAD, every_part)
        .join(
            pairs.withColumn(SPREAD, spread(F.col(ENTITY), SPREAD_OVER)),
            on=[REFERENCE, _BUCKET, SPREAD],
            how="inner",
        )
        .where(F.col(DISTANCE) <= F.col(REACH))
        .join(F.broadcast(lookups.sets), on=[CATS, CATEGORY_SET], how="left_semi")
        .select(*references.columns, ENTITY, DISTANCE, SHAPE_PAIR)
    )


def near_members(references: DataFrame, lookups: Lookups) -> DataFrame:
    """Rows (node, entity) whose condition holds for a disjoint pair within reach; may repeat."""
    covered = span_holds(F.col(DISTANCE), F.col(SHAPE_PAIR))
    return (
        near_pairs(references, lookups)
        .join(F.broadcast(lookups.spans), on=COND, how="inner")
        .where(covered)
        .select(NODE, ENTITY)
    )


def _measured_pairs(asked: DataFrame, lookups: Lookups) -> DataFrame:
    """Disjoint pairs (reference, bucket, entity) with their distance."""
    once = asked.groupBy(REFERENCE, _BUCKET).agg(F.max(REACH).alias(REACH))
    cats = asked.select(CATS).distinct()
    wanted = lookups.sets.join(cats, on=CATS, how="left_semi").select(CATEGORY_SET).distinct()
    places = lookups.entities.select(
        F.col(PEID).alias(REFERENCE),
        F.col(SHAPE).alias("fromShape"),
        F.col(GEOMETRY).alias("origin"),
    )
    origins = once.join(places, on=REFERENCE, how="inner")
    targets = lookups.entities.join(F.broadcast(wanted), on=CATEGORY_SET, how="left_semi").select(
        F.col(PEID).alias(ENTITY), SHAPE, CATEGORY_SET, F.col(GEOMETRY).alias("target")
    )
    within = F.expr(f"ST_DWithin(origin, target, {REACH} + {_ROOM}{REACH})")
    distance = F.expr("ST_Distance(origin, target)").alias(DISTANCE)
    measured = origins.join(targets, on=within, how="inner").select("*", distance)
    apart = (F.col(DISTANCE) > _SURELY_APART) | ~F.expr("ST_Intersects(origin, target)")
    return measured.where((F.col(DISTANCE) <= F.col(REACH)) & apart).select(
        REFERENCE,
        _BUCKET,
        ENTITY,
        DISTANCE,
        shape_pair(F.col("fromShape"), F.col(SHAPE)).alias(SHAPE_PAIR),
        CATEGORY_SET,
    )


def _bucket() -> Column:
    """Reaches of up to one metre share a bucket."""
    return F.greatest(F.ceil(F.log2(F.greatest(F.col(REACH), F.lit(1.0)))), F.lit(0)).cast("int")
