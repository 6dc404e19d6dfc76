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

from schemas.related import CATEGORY_SET, ENTITY, PAIR_KIND, REFERENCE, SALT
from spatial_udfs.sedona_categories import CATS
from spatial_udfs.sedona_conditions import COND, FAR, REACH
from spatial_udfs.sedona_salting import salted_references
from spatial_udfs.sedona_stage_graph import NODE

SOURCE: Final = "source"  # a node whose members are references
IS_REFERENCE: Final = "isReference"

# What every node of a level has.
NODE_COLUMNS: Final = (NODE, COND, CATS, REACH, FAR)


@dataclass(frozen=True, slots=True)
class Lookups:
    """What the joins of every level look up: the world and the batch as rows."""

    pairs: DataFrame  # reference, salt, entity, pairKind, categorySet
    heavy: DataFrame  # reference
    kinds: DataFrame  # cond, pairKind: where a condition holds for related pairs
    spans: DataFrame  # cond, above, upTo, holds: where it holds for disjoint pairs
    sets: DataFrame  # cats, categorySet: what patterns select
    entities: DataFrame  # peid, shape, categorySet, geometry


def references_of(edges: DataFrame, members: DataFrame) -> DataFrame:
    """The references of each node: rows of its edges with the members of their sources."""
    sources = members.select(F.col(NODE).alias(SOURCE), F.col(ENTITY).alias(REFERENCE))
    return sources.join(edges, on=SOURCE, how="inner").drop(SOURCE)


def related_members(references: DataFrame, lookups: Lookups) -> DataFrame:
    """Rows (node, entity) whose condition holds for a pair that shares a point; may repeat."""
    asked = salted_references(references.select(NODE, REFERENCE, COND, CATS), lookups.heavy)
    return (
        asked.join(lookups.pairs, on=[REFERENCE, SALT], how="inner")
        .join(F.broadcast(lookups.kinds), on=[COND, PAIR_KIND], how="left_semi")
        .join(F.broadcast(lookups.sets), on=[CATS, CATEGORY_SET], how="left_semi")
        .select(NODE, ENTITY)
    )


def selected(candidates: list[DataFrame], excluded: DataFrame) -> DataFrame:
    """Each candidate once, unless it is a reference of its node: rows (node, entity)."""
    found = [frame.select(NODE, ENTITY, _flag("false")) for frame in candidates]
    references = excluded.select(NODE, F.col(REFERENCE).alias(ENTITY), _flag("true"))
    together = reduce(DataFrame.unionAll, [*found, references])
    # One aggregation makes candidates unique and takes the references out.
    judged = together.groupBy(NODE, ENTITY).agg(F.max(IS_REFERENCE).alias(IS_REFERENCE))
    return judged.where(~F.col(IS_REFERENCE)).select(NODE, ENTITY)


def _flag(value: str) -> Column:
    return F.expr(value).alias(IS_REFERENCE)
