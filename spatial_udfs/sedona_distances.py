"""Disjoint pairs within reach: one index-backed join for all distances of a level.

A reference may be asked for at many reaches. They are put into buckets, each twice as wide as
the one before, and the reference is joined once for each bucket: so thousands of distances
cost a handful of rows, and one giant reach does not widen all the others.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.related import CATEGORY_SET, ENTITY, REFERENCE
from spatial_udfs.sedona_categories import CATS
from spatial_udfs.sedona_conditions import COND, FAR, REACH, span_holds
from spatial_udfs.sedona_entities import SHAPE
from spatial_udfs.sedona_pair_kinds import shape_pair
from spatial_udfs.sedona_places import ORIGIN, ORIGIN_SHAPE, TARGET
from spatial_udfs.sedona_salting import spread
from spatial_udfs.sedona_stages import IS_JOINED, PAIR_COLUMNS, PAIR_HOLDS, SHAPE_PAIR, Lookups

BUCKET: Final = "bucket"  # int: reaches of up to 2^bucket metres
DISTANCE: Final = "distance"
# How many tasks share the pairs of one reference and bucket.
SPREAD_OVER: Final = 8

_PART: Final = "part"
_SPAN_COND: Final = "spanCond"
# Whether a pair is disjoint is asked only where rounding could hide it.
_SURELY_APART: Final = 0.001
# Boxes are widened by more than rounding can change; the exact distance decides afterwards.
_WIDENED: Final = f"{REACH} + 1e-6 + 1e-9 * {REACH}"


def origins(references: DataFrame, lookups: Lookups, *, few: bool) -> DataFrame:
    """Each reference once for each bucket it is asked for in, with its geometry."""
    widest = _asked(references).groupBy(REFERENCE, BUCKET).agg(F.max(REACH).alias(REACH))
    return lookups.places.origins(widest, few=few)


def near_pairs(
    references: DataFrame,
    sources: DataFrame,
    targets: DataFrame,
    lookups: Lookups,
    *,
    few: bool,
    with_failing: bool,
) -> DataFrame:
    """Disjoint pairs within reach (PAIR_COLUMNS), of selected categories; may repeat.

    ``sources`` are the ``origins`` of the references, ``targets`` the entities of any category
    that is asked for. Only pairs for which the condition holds, unless failing ones count too.
    """
    measured, asked, by = _measured(sources, targets), _asked(references), [REFERENCE, BUCKET]
    if few:
        found = measured.join(F.broadcast(asked), on=by, how="inner")
    else:
        every_part = F.explode(F.sequence(F.lit(0), F.lit(SPREAD_OVER - 1)))
        parted = measured.withColumn(_PART, spread(F.col(ENTITY), SPREAD_OVER))
        found = asked.withColumn(_PART, every_part).join(parted, on=[*by, _PART], how="inner")
    within = found.where(F.col(DISTANCE) <= F.col(REACH)).join(
        F.broadcast(lookups.sets), on=[CATS, CATEGORY_SET], how="left_semi"
    )
    spans = F.broadcast(lookups.spans.withColumnRenamed(COND, _SPAN_COND))
    covered = (F.col(COND) == F.col(_SPAN_COND)) & span_holds(F.col(DISTANCE), F.col(SHAPE_PAIR))
    judged = within.join(spans, on=covered, how="left" if with_failing else "inner")
    holds = F.col(_SPAN_COND).isNotNull()
    wanted = judged.withColumn(PAIR_HOLDS, holds).where(holds | (F.col(FAR) != 0))
    return wanted.select(*PAIR_COLUMNS)


def _asked(references: DataFrame) -> DataFrame:
    """References that must be joined and whose condition looks at distances."""
    bucket = F.ceil(F.log2(F.greatest(F.col(REACH), F.lit(1.0)))).cast("int")
    return references.where(F.col(IS_JOINED) & F.col(REACH).isNotNull()).withColumn(BUCKET, bucket)


def _measured(sources: DataFrame, targets: DataFrame) -> DataFrame:
    """Disjoint pairs (reference, bucket, entity) with their distance."""
    met = F.expr(f"ST_DWithin({ORIGIN}, {TARGET}, {_WIDENED})")
    distance = F.expr(f"ST_Distance({ORIGIN}, {TARGET})")
    pairs = sources.join(targets, on=met, how="inner").withColumn(DISTANCE, distance)
    apart = (F.col(DISTANCE) > _SURELY_APART) | ~F.expr(f"ST_Intersects({ORIGIN}, {TARGET})")
    shapes: Column = shape_pair(F.col(ORIGIN_SHAPE), F.col(SHAPE))
    return pairs.where((F.col(DISTANCE) <= F.col(REACH)) & apart).select(
        REFERENCE, BUCKET, ENTITY, DISTANCE, shapes.alias(SHAPE_PAIR), CATEGORY_SET
    )
