"""Random conditions and neighborhoods, built from the objects that the readers give."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from typing import Any

import shapely
from hypothesis import strategies as st

from schemas.language.conditions import And, Condition, Not, Or, Relate, Topological, WithinDistance
from schemas.language.neighborhood import Neighborhood, RefStages, Stage
from schemas.language.places import place_of_geometry
from schemas.topology.relations import LONG_NAMES
from spatial_udfs.entity_table import EntityTable
from tests.strategies.worlds import geometries, worlds

# Limits that grid distances meet exactly, in all scales of the worlds.
GRID_DISTANCES = (0.0, 0.1, 1 / 3, 0.5, 1.0, math.sqrt(2), 2.0, math.sqrt(5), 3.0, 5.0, 1e7)
PATTERNS = (
    "#",
    "road/#",
    "road/+",
    "road",
    "+/major",
    "road/major/motorway/",
    "+/+/#",
    "zone/old town",
    "zone/#",
    "transport/parking",
    "no/such/category",
)
# Characters as often as they keep a mask satisfiable; the last column are exterior cells.
_CELL = st.sampled_from("*****TTFF012")


# Places stand for themselves there, so they can touch entities exactly.
IN_DEGREES = 4326


@cache
def worlds_in_degrees() -> st.SearchStrategy[EntityTable]:
    """Small worlds near 0° 0°, in whose CRS a place has the coordinates that it is written with."""
    small = worlds(placements=((1.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.1, 0.0, 0.0)))
    return small.map(lambda world: replace(world, srid=IN_DEGREES))


@cache
def masks() -> st.SearchStrategy[str]:
    return st.lists(_CELL, min_size=9, max_size=9).map("".join)


@cache
def topology() -> st.SearchStrategy[Condition]:
    named = st.sampled_from(sorted(LONG_NAMES)).map(Topological)
    return st.one_of(named, named, masks().map(Relate))


@cache
def distances() -> st.SearchStrategy[Condition]:
    return st.one_of(st.sampled_from(GRID_DISTANCES), st.floats(0.0, 10.0, allow_nan=False)).map(
        WithinDistance
    )


@cache
def conditions(max_leaves: int = 5) -> st.SearchStrategy[Condition]:
    leaf = st.one_of(topology(), topology(), distances())

    def joined(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        several = st.lists(parts, min_size=2, max_size=3).map(tuple)
        return st.one_of(parts.map(Not), several.map(And), several.map(Or))

    return st.recursive(leaf, joined, max_leaves=max_leaves)


@cache
def _ref_stages(number: int) -> st.SearchStrategy[RefStages]:
    listed = st.lists(st.integers(1, number - 1), min_size=1, max_size=3, unique=True).map(tuple)
    return st.one_of(st.just("Prev"), st.just("Anc"), listed)


def places(world: EntityTable) -> st.SearchStrategy[str]:
    """Geometries of the world's own grid, and of its entities, as places; WGS 84 alone fits."""
    there = st.sampled_from(world.geometries.tolist())
    return st.one_of(geometries(6), geometries(6), there).map(_place_text)


def _place_text(geometry: Any) -> str:
    return place_of_geometry(json.loads(shapely.to_geojson(geometry))).text


@cache
def _visible(stages: int) -> st.SearchStrategy[list[bool]]:
    return st.lists(st.booleans(), min_size=stages, max_size=stages).filter(any)


PATTERN_LISTS = st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3).map(tuple)
ANY_CATEGORY = st.just(("#",))


@st.composite
def neighborhoods(draw: st.DrawFn, world: EntityTable, max_typed_stages: int = 4) -> Neighborhood:
    """At least one reference exists; some may not. Conditions and categories like to repeat.

    In a world in degrees most of the neighborhoods have places too, or places alone.
    """
    in_degrees = world.srid == IN_DEGREES
    around = tuple(draw(st.lists(places(world), max_size=3))) if in_degrees else ()
    least = 0 if around else 1
    refs = draw(st.lists(st.sampled_from(world.peids.tolist()), min_size=least, max_size=3))
    refs += draw(st.lists(st.integers(0, 50), max_size=1))
    repeated = draw(conditions())
    common = draw(PATTERN_LISTS)
    categories = st.one_of(st.just(common), ANY_CATEGORY, PATTERN_LISTS)
    condition = st.one_of(st.just(repeated), conditions())
    stages: list[Stage] = []
    number = 1
    for _ in range(draw(st.integers(1, max_typed_stages))):
        repeat = draw(st.integers(1, 3)) if number > 1 else 1
        stages.append(
            Stage(
                categories=draw(categories),
                condition=draw(condition),
                ref_stages=draw(_ref_stages(number)) if number > 1 else None,
                repeat=repeat,
            )
        )
        number += repeat
    visible = draw(_visible(number - 1))
    return Neighborhood(tuple(refs), tuple(stages), tuple(visible), places=around)
