"""One level of nodes: from the members of the nodes they refer to, to their own members.

Every node of a level is resolved in the same few joins, whatever its condition, categories
and distances are: these are rows that the joins look up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.related import CATEGORY_SET, ENTITY, NODE, PAIR_KIND, REFERENCE, SALT
from spatial_udfs.sedona_categories import CATS
from spatial_udfs.sedona_conditions import COND, FAR, REACH
from spatial_udfs.sedona_pair_kinds import shape_pair_of
from spatial_udfs.sedona_places import EntityPlaces
from spatial_udfs.sedona_salting import salted_references

SOURCE: Final = "source"  # long, a node whose members are references
IS_JOINED: Final = "isJoined"  # boolean: whether its members can give anything new
PAIR_HOLDS: Final = "pairHolds"  # boolean: whether the condition holds for a pair
SHAPE_PAIR: Final = "shapePair"  # int, place in SHAPE_PAIRS

# What every reference of a level carries of its node.
NODE_COLUMNS: Final = (NODE, COND, CATS, REACH, FAR)
# What comes out of every way to find pairs; with failing ones for nodes with far pairs.
PAIR_COLUMNS: Final = (NODE, ENTITY, PAIR_HOLDS, SHAPE_PAIR)

_IS_REFERENCE: Final = "isReference"


@dataclass(frozen=True, slots=True)
class Lookups:
    """What the joins of every level look up: the world and the batch as rows."""

    pairs: DataFrame  # reference, salt, entity, pairKind, categorySet
    laid_out_pairs: DataFrame  # the same, in tasks by reference and salt
    heavy: tuple[int, ...]  # references that have salts
    kinds: DataFrame  # cond, pairKind: where a condition holds for related pairs
    spans: DataFrame  # cond, above, upTo, holds: where it holds for disjoint pairs
    sets: DataFrame  # cats, categorySet: what patterns select
    places: EntityPlaces


def references_of(edges: DataFrame, members: DataFrame) -> DataFrame:
    """The references of each node: the members of the sources of its edges."""
    sources = members.select(F.col(NODE).alias(SOURCE), F.col(ENTITY).alias(REFERENCE))
    return sources.join(edges, on=SOURCE, how="inner").drop(SOURCE)


def related_pairs(
    references: DataFrame, lookups: Lookups, *, few: bool, with_failing: bool
) -> DataFrame:
    """Pairs that share a point (PAIR_COLUMNS), of selected categories; may repeat.

    Only those for which the condition holds, unless failing ones count too. A ``few``
    references go to where the pairs are; of many, each task gets a share with its pairs.
    """
    asked = references.where(IS_JOINED)
    if few:
        found = lookups.pairs.join(F.broadcast(asked), on=REFERENCE, how="inner")
    else:
        salted = salted_references(asked, lookups.heavy)
        found = salted.join(lookups.laid_out_pairs, on=[REFERENCE, SALT], how="inner")
    met = found.join(F.broadcast(lookups.sets), on=[CATS, CATEGORY_SET], how="left_semi")
    if with_failing:
        holding = F.broadcast(lookups.kinds.withColumn(PAIR_HOLDS, F.expr("true")))
        judged = met.join(holding, on=[COND, PAIR_KIND], how="left")
        judged = judged.withColumn(PAIR_HOLDS, F.coalesce(PAIR_HOLDS, F.expr("false")))
        met = judged.where(F.col(PAIR_HOLDS) | (F.col(FAR) != 0))
    else:
        met = met.join(F.broadcast(lookups.kinds), on=[COND, PAIR_KIND], how="left_semi")
        met = met.withColumn(PAIR_HOLDS, F.expr("true"))
    return met.withColumn(SHAPE_PAIR, shape_pair_of(F.col(PAIR_KIND))).select(*PAIR_COLUMNS)


def selected(pairs: list[DataFrame], references: DataFrame) -> DataFrame:
    """Rows (node, entity): each entity of a pair once, unless it is a reference of its node."""
    found = [frame.select(NODE, ENTITY, _flag("false")) for frame in pairs]
    excluded = references.select(NODE, F.col(REFERENCE).alias(ENTITY), _flag("true"))
    together = reduce(DataFrame.unionAll, [*found, excluded])
    # One aggregation makes entities unique and takes the references out.
    judged = together.groupBy(NODE, ENTITY).agg(F.max(_IS_REFERENCE).alias(_IS_REFERENCE))
    return judged.where(~F.col(_IS_REFERENCE)).select(NODE, ENTITY)


def _flag(value: str) -> Column:
    return F.expr(value).alias(_IS_REFERENCE)
