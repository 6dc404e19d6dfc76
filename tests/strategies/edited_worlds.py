"""Worlds before and after an edit, resolved incrementally and in full."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st
from shapely.geometry import LineString

from rebuild import resolve as rebuild_resolving
from rebuild.exact_workers import ExactWorkers, WorldPlace
from rebuild.registered_sets import RegisteredSets, registered_sets
from rebuild.resolve import plan_all, plan_of, resolve_by_plan
from schemas.generation import RegistryCoverage
from schemas.language.neighborhood import Neighborhood, neighborhood_hash
from schemas.subscription import Registration
from spatial_udfs.entity_table import EntityTable
from testing.world_writers import entity_rows
from tests.strategies.neighborhoods import neighborhoods
from tests.strategies.worlds import CATEGORY_LISTS, EXACT_PLACEMENTS, geometries, table_of, worlds
from world.memberships.resolved_sets import ResolvedSets
from world.versions.changes import compare_entities

Rows = list[tuple[int, tuple[str, ...], Any]]

THIS_PROCESS = ExactWorkers(1)


def rows_of(world: EntityTable) -> Rows:
    return [
        (int(peid), world.categories_at(place), world.geometries[place])
        for place, peid in enumerate(world.peids)
    ]


@st.composite
def edited(
    draw: st.DrawFn, world: EntityTable, places: st.SearchStrategy[Any] | None = None
) -> EntityTable:
    """The world after some changes of each kind; at least one entity stays."""
    places = geometries(6) if places is None else places
    rows = {row[0]: row for row in rows_of(world)}
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(("add", "remove", "move", "recategorise")))
        if kind == "add":
            peid = draw(st.integers(0, 60).filter(lambda number: number not in rows))
            rows[peid] = (peid, tuple(draw(CATEGORY_LISTS)), draw(places))
            continue
        peid, categories, geometry = rows[draw(st.sampled_from(sorted(rows)))]
        if kind == "remove" and len(rows) > 1:
            del rows[peid]
        elif kind == "move":
            rows[peid] = (peid, categories, draw(places))
        elif kind == "recategorise":
            rows[peid] = (peid, tuple(draw(CATEGORY_LISTS)), geometry)
    return replace(table_of(rows.values(), version=2), srid=world.srid)


@st.composite
def scenes(
    draw: st.DrawFn, srid: int | None = None
) -> tuple[EntityTable, EntityTable, list[Neighborhood]]:
    """Two versions in either order, so that references vanish and come back.

    With the ``srid`` of a world in degrees most neighborhoods have places.
    """
    first = draw(worlds(max_entities=10, min_entities=2, placements=EXACT_PLACEMENTS[:1]))
    first = first if srid is None else replace(first, srid=srid)
    second = draw(edited(first))
    described = draw(st.lists(neighborhoods(first, max_typed_stages=3), min_size=1, max_size=4))
    pair = (second, first) if draw(st.booleans()) else (first, second)
    return *pair, described


def registered(described: list[Neighborhood], numbers: range) -> RegisteredSets:
    entries = [
        Registration("c", n, "#", each.to_json(), neighborhood_hash(each))
        for n, each in enumerate(described)
    ]
    return registered_sets(RegistryCoverage("r", numbers.stop), zip(numbers, entries, strict=False))


def place_of(table: EntityTable) -> WorldPlace:
    return WorldPlace("nowhere", table.version, table)


def all_rows(result: ResolvedSets, *, shown_only: bool = False) -> list[tuple[int, ...]]:
    rows = result.rows.where(result.rows.shown) if shown_only else result.rows
    columns = (rows.sets, rows.stages, rows.shown, rows.peids)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def incrementally(
    old: EntityTable, new: EntityTable, sets: RegisteredSets, *, whole: bool, in_place: bool
) -> tuple[ResolvedSets, int]:
    """The result by way of the old version, and how many neighborhoods were resolved for it.

    ``in_place``: members are changed where that can be done; else sets are taken over whole.
    """
    before = resolve_by_plan(sets, plan_all(sets), place_of(old), THIS_PROCESS)
    if not whole:
        before = replace(before, rows=before.rows.where(before.rows.shown), whole=False)
    changes = compare_entities(entity_rows(old), entity_rows(new))
    with patch.object(rebuild_resolving, "MOST_TOUCHED", 10.0 if in_place else 0.0):
        plan = plan_of(sets, before, changes, place_of(new))
    return resolve_by_plan(sets, plan, place_of(new), THIS_PROCESS), int(plan.to_resolve.sum())


def differs(
    scene: tuple[EntityTable, EntityTable, list[Neighborhood]], *, in_place: bool = False
) -> bool:
    old, new, described = scene
    sets = registered(described, range(1, 100))
    found, _ = incrementally(old, new, sets, whole=True, in_place=in_place)
    return all_rows(found) != all_rows(
        resolve_by_plan(sets, plan_all(sets), place_of(new), THIS_PROCESS)
    )


def road(peid: int, west: float, east: float) -> tuple[int, tuple[str, ...], Any]:
    """Along one line: roads that share an end touch."""
    return (peid, ("road",), LineString([(west, 0), (east, 0)]))


ROW_OF_ROADS: Rows = [road(1, 0, 1), road(2, 1, 2), road(3, 2, 3)]
HOPS = "({1,9},{road},T) • (Prev,{road},T)"
