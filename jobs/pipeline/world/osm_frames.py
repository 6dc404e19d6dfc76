"""OSM elements on their way to entities, as Spark frames.

Sedona reads the elements. Ways are taken apart into (way, position, node), get the places of
their nodes by a join, and are put together again; the nodes that roads pass more than once are
counted; area relations get the ways that are their members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  the name that all of Spark's own pages use

from jobs.pipeline.world.world_frames import RANK, ZONE_TYPES
from schemas import entity
from world.batches import osm_batches
from world.batches.osm_batches import (
    ID,
    IN_RELATION,
    JUNCTIONS,
    MEMBERS,
    REFS,
    SEED,
    TAGS,
    WAY,
    WAYS,
)
from world.sources.osm.extract_pass import AREA_RELATIONS
from world.sources.osm.rules import Rules
from world.sources.osm.spark_extract import NODE, POSITION, X, Y

CANDIDATE_TYPES: Final = (
    "peid long, categories array<string>, name string, geometry binary, key string, kind string, "
    "kept boolean, source string, locator string, reason string, seed array<long>"
)
PASSED_NODES: Final = "way long, node long"
# Tags that decide beside those of the rules: what encloses something, and what a relation is.
DECISIVE_KEYS: Final = ("area", "type")
# Whether a relation that a rule may fit needs the way.
NEEDED: Final = "needed"
NANODEGREES: Final = 1e9
NANODEGREES_PER_STEP: Final = 100
EAST_END: Final = 1_800_000_000
NORTH_END: Final = 900_000_000

Keep = Callable[[DataFrame], DataFrame]


def candidates(elements: DataFrame, source: str, rules: Rules, keep: Keep) -> DataFrame:
    """Return the entities to be and the problems of an extract; ``keep`` puts frames aside."""
    relations = keep(area_relations(elements, rules))
    ways = keep(located_ways(elements, relations, rules))
    frames = [
        _tagged_nodes(elements, rules).mapInArrow(
            osm_batches.node_candidates(rules, source), CANDIDATE_TYPES
        ),
        _with_junctions(ways, rules).mapInArrow(
            osm_batches.way_candidates(rules, source), CANDIDATE_TYPES
        ),
        _with_ways(relations, ways).mapInArrow(
            osm_batches.relation_candidates(rules, source), CANDIDATE_TYPES
        ),
    ]
    return frames[0].unionByName(frames[1]).unionByName(frames[2])


def area_relations(elements: DataFrame, rules: Rules) -> DataFrame:
    """Return multipolygons and boundaries with their ways; ``needed`` where a rule may fit."""
    members = F.transform(
        F.arrays_zip("refs", "ref_types", "ref_roles"),
        lambda member: F.struct(
            member["refs"].alias("ref"),
            member["ref_roles"].alias("role"),
            member["ref_types"].alias("type"),
        ),
    )
    return (
        elements.where((F.col("kind") == "relation") & F.col("tags.type").isin(*AREA_RELATIONS))
        .select(
            ID,
            _decisive_tags(rules).alias(TAGS),
            F.filter(members, lambda member: member["type"] == "WAY").alias(MEMBERS),
        )
        .withColumn(NEEDED, _has_key(rules.by_key))
    )


def located_ways(elements: DataFrame, relations: DataFrame, rules: Rules) -> DataFrame:
    """Return the ways that a rule may fit or a relation needs, with the places of their nodes."""
    members = (
        relations.select(F.explode(F.col(MEMBERS)["ref"]).alias(ID), NEEDED)
        .groupBy(ID)
        .agg(F.max(NEEDED).alias(NEEDED))
    )
    wanted = (
        elements.where(F.col("kind") == "way")
        .select(ID, _decisive_tags(rules).alias(TAGS), REFS)
        .join(members, on=ID, how="left")
        .where(_has_key(rules.by_key) | F.coalesce(NEEDED, F.lit(False)))  # noqa: FBT003
    )
    # Tags travel with the first node alone; a way without nodes has one row too.
    is_first = F.col(POSITION).isNull() | (F.col(POSITION) == 0)
    nodes_of_ways = wanted.select(
        ID, TAGS, F.col(NEEDED).isNotNull().alias(IN_RELATION),
        F.posexplode_outer(REFS).alias(POSITION, NODE),
    ).withColumn(TAGS, F.when(is_first, F.col(TAGS)))  # fmt: skip
    places = _nodes(elements).where(_is_on_earth()).select(F.col(ID).alias(NODE), X, Y)
    return (
        nodes_of_ways.join(places, on=NODE, how="left")
        .groupBy(ID)
        .agg(
            F.first(TAGS, ignorenulls=True).alias(TAGS),
            F.first(IN_RELATION).alias(IN_RELATION),
            F.collect_list(F.struct(POSITION, NODE, X, Y)).alias(REFS),
        )
    )


def _with_junctions(ways: DataFrame, rules: Rules) -> DataFrame:
    """Return the ways that a rule may fit, with the nodes of each at which roads are split."""
    roads = ways.where(_has_key(rules.by_key))
    passes = roads.select(ID, TAGS, REFS).mapInArrow(
        osm_batches.passes_of_roads(rules), PASSED_NODES
    )
    often = F.count("*").over(Window.partitionBy(NODE))
    junctions = (
        passes.withColumn("passes", often)
        .where(F.col("passes") > 1)
        .groupBy(F.col(WAY).alias(ID))
        .agg(F.collect_set(NODE).alias(JUNCTIONS))
    )
    return roads.join(junctions, on=ID, how="left").select(ID, TAGS, REFS, IN_RELATION, JUNCTIONS)


def _with_ways(relations: DataFrame, ways: DataFrame) -> DataFrame:
    """Return the relations that a rule may fit, with those of their ways that are there."""
    needed = relations.where(NEEDED).select(ID, TAGS, MEMBERS)
    members = needed.select(ID, F.explode(F.array_distinct(F.col(MEMBERS)["ref"])).alias(WAY))
    there = (
        members.join(ways.select(F.col(ID).alias(WAY), REFS), on=WAY, how="inner")
        .groupBy(ID)
        .agg(F.collect_list(F.struct(WAY, REFS)).alias(WAYS))
    )
    return needed.join(there, on=ID, how="left").select(ID, TAGS, MEMBERS, WAYS)


def _tagged_nodes(elements: DataFrame, rules: Rules) -> DataFrame:
    nodes = _nodes(elements, _decisive_tags(rules).alias(TAGS)).where(_has_key(rules.by_key))
    return nodes.select(
        ID, TAGS, *(F.when(_is_on_earth(), F.col(name)).alias(name) for name in (X, Y))
    )


def _nodes(elements: DataFrame, *columns: Column) -> DataFrame:
    """Return the nodes with their places in steps of 1e-7 degrees, cut off as osmium does it."""
    steps = [
        (F.rint(F.col(f"location.{name}") * NANODEGREES).cast("long") / NANODEGREES_PER_STEP)
        .cast("long")
        .alias(axis)
        for axis, name in ((X, "longitude"), (Y, "latitude"))
    ]
    return elements.where(F.col("kind") == "node").select(ID, *columns, *steps)


def _is_on_earth() -> Column:
    return F.col(X).between(-EAST_END, EAST_END) & F.col(Y).between(-NORTH_END, NORTH_END)


def _decisive_tags(rules: Rules) -> Column:
    keys = sorted(rules.keys().union(DECISIVE_KEYS))
    return F.map_filter("tags", lambda key, _: key.isin(*keys))


def _has_key(keys: Collection[str]) -> Column:
    wanted = F.array(*(F.lit(key) for key in sorted(keys)))
    return F.coalesce(F.arrays_overlap(F.map_keys(TAGS), wanted), F.lit(False))  # noqa: FBT003


def with_own_peids(rows: DataFrame, source: str, keep: Keep) -> DataFrame:
    """Return the candidates, of two segments with one hash the one of the newer way with another.

    That is as rare as two equal hashes of 62 bits: rows are moved only where it happens.
    """
    attempt = 0
    while True:
        is_entity = F.col(entity.PROBLEM_KIND).isNull()
        taken = rows.where(is_entity).groupBy(entity.PEID).count().where(F.col("count") > 1)
        peids = taken.select(entity.PEID)
        if peids.isEmpty():
            return rows
        attempt += 1
        order = Window.partitionBy(entity.PEID).orderBy(SEED)
        ranked = (
            rows.where(is_entity)
            .join(peids, on=entity.PEID, how="left_semi")
            .withColumn(RANK, F.row_number().over(order))
        )
        later = ranked.where(F.col(RANK) > 1).drop(RANK)
        moved = later.mapInArrow(osm_batches.other_peids(source, attempt), CANDIDATE_TYPES)
        untouched = rows.where(is_entity).join(peids, on=entity.PEID, how="left_anti")
        first = ranked.where(F.col(RANK) == 1).drop(RANK)
        rows = keep(
            rows.where(~is_entity).unionByName(untouched).unionByName(first).unionByName(moved)
        )


def zone_counts(rows: DataFrame) -> Counter[int]:
    """Return how many candidates begin in each UTM zone."""
    shapes = rows.where(F.col(entity.PROBLEM_KIND).isNull()).select(entity.GEOMETRY)
    zones = shapes.mapInArrow(osm_batches.zone_counter, ZONE_TYPES)
    return Counter(dict(zones.groupBy("zone").agg(F.sum("entities")).collect()))
