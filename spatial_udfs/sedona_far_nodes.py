"""Nodes whose condition holds for far pairs, by counting instead of a cross product.

Such a node selects an entity unless *every* reference for which the condition would hold from
afar is near it and fails. So what is near is counted, for each shape of reference apart,
because on far pairs a condition looks at shapes.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.entity import PEID
from schemas.related import CATEGORY_SET, ENTITY, NODE, REFERENCE
from spatial_udfs.sedona_categories import CATS
from spatial_udfs.sedona_conditions import FAR, has_bit
from spatial_udfs.sedona_entities import SHAPE
from spatial_udfs.sedona_pair_kinds import SHAPE_COUNT, shape_pair
from spatial_udfs.sedona_stages import IS_JOINED, PAIR_HOLDS, SHAPE_PAIR, Lookups

_IS_REFERENCE: Final = "isReference"
_NEAR: Final = [f"near{shape}" for shape in range(SHAPE_COUNT)]
_ALL: Final = [f"all{shape}" for shape in range(SHAPE_COUNT)]


def far_nodes(references: DataFrame, lookups: Lookups) -> DataFrame:
    """Nodes that far pairs matter to, with how many references of each shape they have."""
    far = references.where(F.col(IS_JOINED) & (F.col(FAR) != 0))
    shapes = lookups.places.every().select(F.col(PEID).alias(REFERENCE), SHAPE)
    counts = [F.count_if(F.col(SHAPE) == shape).alias(name) for shape, name in enumerate(_ALL)]
    once = far.select(NODE, CATS, FAR, REFERENCE).distinct()
    return once.join(shapes, on=REFERENCE, how="inner").groupBy(NODE, CATS, FAR).agg(*counts)


def selected_with_far(
    pairs: list[DataFrame], references: DataFrame, nodes: DataFrame, lookups: Lookups
) -> DataFrame:
    """Rows (node, entity): like ``selected``, where ``nodes`` take in far entities too.

    For those, ``pairs`` must have the failing ones and each reference must come once.
    """
    parts = [
        *[
            _row(frame, F.col(ENTITY), holds=F.col(PAIR_HOLDS), shapes=F.col(SHAPE_PAIR))
            for frame in pairs
        ],
        _row(_eligible(nodes, lookups), F.col(ENTITY), shape=F.col(SHAPE)),
        _row(references, F.col(REFERENCE), is_reference=F.expr("true")),
    ]
    judged = (
        reduce(DataFrame.unionAll, parts)
        .groupBy(NODE, ENTITY)
        .agg(
            F.max(SHAPE).alias(SHAPE),
            F.max(_IS_REFERENCE).alias(_IS_REFERENCE),
            F.max(PAIR_HOLDS).alias(PAIR_HOLDS),
            *[F.sum(name).alias(name) for name in _NEAR],
        )
        .where(~F.col(_IS_REFERENCE))
    )
    left_over = judged.join(F.broadcast(nodes.drop(CATS)), on=NODE, how="left")
    far = F.coalesce(_one_is_far(), F.expr("false"))
    return left_over.where(F.col(PAIR_HOLDS) | far).select(NODE, ENTITY)


def _eligible(nodes: DataFrame, lookups: Lookups) -> DataFrame:
    """Every entity of a node's categories: most of them are members."""
    cats = F.broadcast(nodes.select(CATS).distinct())
    sets = F.broadcast(lookups.sets.join(cats, on=CATS, how="left_semi"))
    entities = lookups.places.every().select(F.col(PEID).alias(ENTITY), SHAPE, CATEGORY_SET)
    by_cats = entities.join(sets, on=CATEGORY_SET, how="inner")
    return by_cats.join(F.broadcast(nodes.select(NODE, CATS)), on=CATS, how="inner")


def _row(
    frame: DataFrame,
    entity: Column,
    *,
    shape: Column | None = None,
    is_reference: Column | None = None,
    holds: Column | None = None,
    shapes: Column | None = None,
) -> DataFrame:
    """One of the rows that are added up: an eligible entity, a reference, or a pair."""
    nothing, no = F.lit(None).cast("int"), F.expr("false")
    near = [
        F.lit(0) if shapes is None else (F.floor(shapes / SHAPE_COUNT) == number)
        for number in range(SHAPE_COUNT)
    ]
    return frame.select(
        NODE,
        entity.alias(ENTITY),
        (nothing if shape is None else shape).alias(SHAPE),
        (no if is_reference is None else is_reference).alias(_IS_REFERENCE),
        (no if holds is None else holds).alias(PAIR_HOLDS),
        *[count.cast("int").alias(name) for count, name in zip(near, _NEAR, strict=True)],
    )


def _one_is_far() -> Column:
    """Whether a reference is left for which the condition holds from afar.

    Null, and so false, for entities that are not eligible and for nodes without far pairs.
    """
    return reduce(
        Column.__or__,
        [
            has_bit(F.col(FAR), shape_pair(F.lit(shape), F.col(SHAPE)))
            & (F.col(_ALL[shape]) > F.col(_NEAR[shape]))
            for shape in range(SHAPE_COUNT)
        ],
    )
