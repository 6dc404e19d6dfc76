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
from schemas.related import CATEGORY_SET, ENTITY, PAIR_KIND, REFERENCE, SALT
from spatial_udfs.sedona_categories import CATS
from spatial_udfs.sedona_conditions import COND, FAR, has_bit, span_holds
from spatial_udfs.sedona_distances import DISTANCE, SHAPE_PAIR, near_pairs
from spatial_udfs.sedona_entities import SHAPE
from spatial_udfs.sedona_pair_kinds import SHAPE_COUNT, shape_pair, shape_pair_of
from spatial_udfs.sedona_salting import salted_references
from spatial_udfs.sedona_stage_graph import NODE
from spatial_udfs.sedona_stages import IS_REFERENCE, NODE_COLUMNS, Lookups

_HOLDS: Final = "pairHolds"
_NEAR: Final = [f"near{shape}" for shape in range(SHAPE_COUNT)]
_ALL: Final = [f"all{shape}" for shape in range(SHAPE_COUNT)]


def far_members(
    references: DataFrame, excluded: DataFrame, lookups: Lookups, *, with_distances: bool
) -> DataFrame:
    """Rows (node, entity) of all nodes whose condition holds for some far pairs."""
    once = references.select(*NODE_COLUMNS, REFERENCE).distinct()
    nodes = _with_reference_counts(once, lookups)
    near = [_related(once, lookups)]
    if with_distances:
        near.append(_within_reach(once, lookups))
    parts = [
        _row(_eligible(nodes, lookups), F.col(ENTITY), shape=F.col(SHAPE)),
        _row(
            excluded.join(F.broadcast(nodes.select(NODE)), on=NODE, how="left_semi"),
            F.col(REFERENCE),
            is_reference=F.expr("true"),
        ),
        *[
            _row(frame, F.col(ENTITY), holds=F.col(_HOLDS), place=F.col(SHAPE_PAIR))
            for frame in near
        ],
    ]
    judged = (
        reduce(DataFrame.unionAll, parts)
        .groupBy(NODE, ENTITY)
        .agg(
            F.max(SHAPE).alias(SHAPE),
            F.max(IS_REFERENCE).alias(IS_REFERENCE),
            F.max(_HOLDS).alias(_HOLDS),
            *[F.sum(name).alias(name) for name in _NEAR],
        )
    )
    # The shape is known for eligible entities alone: near ones came with their categories too.
    eligible = F.col(SHAPE).isNotNull() & ~F.col(IS_REFERENCE)
    return (
        judged.where(eligible)
        .join(F.broadcast(nodes), on=NODE, how="inner")
        .where(F.col(_HOLDS) | _one_is_far())
        .select(NODE, ENTITY)
    )


def _with_reference_counts(references: DataFrame, lookups: Lookups) -> DataFrame:
    """One row for each node, with the number of its references of each shape."""
    shapes = lookups.entities.select(F.col(PEID).alias(REFERENCE), SHAPE)
    counts = [F.count_if(F.col(SHAPE) == shape).alias(name) for shape, name in enumerate(_ALL)]
    return references.join(shapes, on=REFERENCE, how="inner").groupBy(*NODE_COLUMNS).agg(*counts)


def _eligible(nodes: DataFrame, lookups: Lookups) -> DataFrame:
    """Every entity of a node's categories: most of them are members."""
    by_set = nodes.select(NODE, CATS).join(F.broadcast(lookups.sets), on=CATS, how="inner")
    entities = lookups.entities.select(F.col(PEID).alias(ENTITY), SHAPE, CATEGORY_SET)
    return entities.join(by_set, on=CATEGORY_SET, how="inner")


def _related(references: DataFrame, lookups: Lookups) -> DataFrame:
    """Pairs that share a point, and whether the condition holds for them."""
    asked = salted_references(references.select(NODE, REFERENCE, COND, CATS), lookups.heavy)
    holding = F.broadcast(lookups.kinds.withColumn(_HOLDS, F.expr("true")))
    return (
        asked.join(lookups.pairs, on=[REFERENCE, SALT], how="inner")
        .join(F.broadcast(lookups.sets), on=[CATS, CATEGORY_SET], how="left_semi")
        .join(holding, on=[COND, PAIR_KIND], how="left")
        .select(
            NODE,
            ENTITY,
            F.coalesce(_HOLDS, F.expr("false")).alias(_HOLDS),
            shape_pair_of(F.col(PAIR_KIND)).alias(SHAPE_PAIR),
        )
    )


def _within_reach(references: DataFrame, lookups: Lookups) -> DataFrame:
    """Disjoint pairs within reach, and whether the condition holds for them."""
    pairs = near_pairs(references, lookups)
    spans = F.broadcast(lookups.spans.withColumnRenamed(COND, "spanCond"))
    covered = (F.col(COND) == F.col("spanCond")) & span_holds(F.col(DISTANCE), F.col(SHAPE_PAIR))
    return pairs.join(spans, on=covered, how="left").select(
        NODE, ENTITY, F.col("spanCond").isNotNull().alias(_HOLDS), SHAPE_PAIR
    )


def _row(
    frame: DataFrame,
    entity: Column,
    *,
    shape: Column | None = None,
    is_reference: Column | None = None,
    holds: Column | None = None,
    place: Column | None = None,
) -> DataFrame:
    """One of the rows that ``far_members`` adds up."""
    nothing, no = F.lit(None).cast("int"), F.expr("false")
    came = [
        F.lit(0) if place is None else (F.floor(place / SHAPE_COUNT) == number).cast("int")
        for number in range(SHAPE_COUNT)
    ]
    return frame.select(
        NODE,
        entity.alias(ENTITY),
        (nothing if shape is None else shape).alias(SHAPE),
        (no if is_reference is None else is_reference).alias(IS_REFERENCE),
        (no if holds is None else holds).alias(_HOLDS),
        *[count.cast("bigint").alias(name) for count, name in zip(came, _NEAR, strict=True)],
    )


def _one_is_far() -> Column:
    """Whether a reference is left for which the condition holds from afar."""
    return reduce(
        Column.__or__,
        [
            has_bit(F.col(FAR), shape_pair(F.lit(shape), F.col(SHAPE)))
            & (F.col(_ALL[shape]) > F.col(_NEAR[shape]))
            for shape in range(SHAPE_COUNT)
        ],
    )
