"""Taking over what a change cannot reach gives what resolving everything gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from shapely.geometry import LineString, Point

from rebuild import resolve as rebuild_resolving
from rebuild.exact_workers import HERE, WorldPlace
from rebuild.registered_sets import RegisteredSets, registered_sets
from rebuild.resolve import plan_all, plan_of, resolve_by_plan
from rebuild.set_changes import SetChanges
from schemas.generation import RegistryCoverage
from schemas.language.neighborhood import Neighborhood, neighborhood_hash
from schemas.language.notation import read_neighborhood
from schemas.subscription import Registration
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.incremental import affected_sets, changed_world
from spatial_udfs.incremental.incremental_stage import ChangingRows
from spatial_udfs.incremental.member_rows import MemberRows
from testing.world_writers import entity_rows
from tests.oracle.definition import entities_of, resolve_by_definition
from tests.strategies.near_degenerate import near_degenerate_worlds, pair_world
from tests.strategies.neighborhoods import neighborhoods
from tests.strategies.worlds import CATEGORIES, EXACT_PLACEMENTS, geometries, table_of, worlds
from world.memberships.resolved_sets import ResolvedSets
from world.versions.changes import compare_entities

Rows = list[tuple[int, tuple[str, ...], Any]]

CATEGORY_LISTS = st.lists(st.sampled_from(CATEGORIES), min_size=1, max_size=3, unique=True)


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
    return table_of(rows.values(), version=2)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[EntityTable, EntityTable, list[Neighborhood]]:
    """Two versions in either order, so that references vanish and come back."""
    first = draw(worlds(max_entities=10, min_entities=2, placements=EXACT_PLACEMENTS[:1]))
    second = draw(edited(first))
    described = draw(st.lists(neighborhoods(first, max_typed_stages=3), min_size=1, max_size=4))
    pair = (second, first) if draw(st.booleans()) else (first, second)
    return *pair, described


@st.composite
def rounded_scenes(draw: st.DrawFn) -> tuple[EntityTable, EntityTable, list[Neighborhood]]:
    """Two versions of a world in which rounding matters; what moves, moves among its segments."""
    whole = draw(near_degenerate_worlds(max_entities=9, moved=False))
    rows = rows_of(whole)
    first = table_of(rows[: len(rows) - 2])
    places = st.sampled_from([geometry for _, _, geometry in rows])
    second = draw(edited(first, places))
    described = draw(st.lists(neighborhoods(first, max_typed_stages=2), min_size=1, max_size=4))
    return first, second, described


def by_definition(world: EntityTable, described: list[Neighborhood]) -> list[tuple[int, ...]]:
    """Rows (set, stage, shown, peid) as the oracle gives them."""
    return sorted(
        (number, stage, each.visible[stage - 1], peid)
        for number, each in enumerate(described)
        for stage, peids in enumerate(resolve_by_definition(entities_of(world), each)[0], start=1)
        for peid in peids
    )


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
    before = resolve_by_plan(sets, plan_all(sets), place_of(old), HERE)
    if not whole:
        before = replace(before, rows=before.rows.where(before.rows.shown), whole=False)
    changes = compare_entities(entity_rows(old), entity_rows(new))
    with patch.object(rebuild_resolving, "MOST_TOUCHED", 10.0 if in_place else 0.0):
        plan = plan_of(sets, before, changes, place_of(new))
    return resolve_by_plan(sets, plan, place_of(new), HERE), int(plan.to_resolve.sum())


@settings(max_examples=150)
@given(scene=scenes(), whole=st.booleans(), in_place=st.booleans())
def test_incremental_equals_full(
    scene: tuple[EntityTable, EntityTable, list[Neighborhood]], whole: bool, in_place: bool
) -> None:
    old, new, described = scene
    sets = registered(described, range(1, 100))
    found, _ = incrementally(old, new, sets, whole=whole, in_place=in_place)
    full = resolve_by_plan(sets, plan_all(sets), place_of(new), HERE)
    assert all_rows(found, shown_only=not whole) == all_rows(full, shown_only=not whole)
    assert found.resolved.tolist() == full.resolved.tolist()


@settings(max_examples=40)
@given(scene=rounded_scenes(), in_place=st.booleans())
def test_incremental_equals_full_where_rounding_matters(
    scene: tuple[EntityTable, EntityTable, list[Neighborhood]], in_place: bool
) -> None:
    assert not differs(scene, in_place=in_place)


@pytest.mark.parametrize("line_first", [True, False])
@pytest.mark.parametrize("arrives", [1, 2])
@pytest.mark.parametrize("reference", [1, 2])
@pytest.mark.parametrize("in_place", [True, False])
def test_a_pair_that_comes_has_the_matrix_of_the_lower_peid(
    line_first: bool, arrives: int, reference: int, in_place: bool
) -> None:
    """Whichever of the two was there before, and whichever of them is the reference."""
    world = pair_world(line_first=line_first)
    before = table_of([row for row in rows_of(world) if row[0] != arrives])
    after = table_of(rows_of(world), version=2)
    described = [
        read_neighborhood(f"({{{reference}}},{{#}},{condition})")
        for condition in ("Relate(*1*******)", "Relate(***1*****)", "I AND DW0")
    ]
    sets = registered(described, range(1, 100))
    found, _ = incrementally(before, after, sets, whole=True, in_place=in_place)
    order = [described.index(read_neighborhood(text)) for text in found.descriptors]
    rows = [(order[row[0]], *row[1:]) for row in all_rows(found)]
    assert sorted(rows) == by_definition(after, described)


@settings(max_examples=30)
@given(scene=scenes(), data=st.data())
def test_differences_lead_from_one_result_to_the_other(
    scene: tuple[EntityTable, EntityTable, list[Neighborhood]], data: st.DataObject
) -> None:
    """Whatever was registered and removed in between: old pairs, less some, plus some."""
    old, new, described = scene
    kept_before = data.draw(st.integers(0, len(described)))
    kept_after = data.draw(st.integers(0, len(described)))
    results = []
    for table, chosen in ((old, described[:kept_before]), (new, described[kept_after:])):
        start = 1 + described.index(chosen[0]) if chosen else 1
        sets = registered(chosen, range(start, 100))
        results.append(resolve_by_plan(sets, plan_all(sets), place_of(table), HERE))
    before, after = map(pairs_of, results)
    changes = SetChanges(*results)
    added, removed = (
        list(zip(*(part.tolist() for part in pairs), strict=True))
        for pairs in (changes.pairs_to_add(), changes.pairs_to_remove())
    )
    assert len(added) + len(removed) == changes.changed_pairs() == len(before ^ after)
    assert set(added) == after - before
    assert set(removed) == before - after


def pairs_of(result: ResolvedSets) -> set[tuple[int, int]]:
    blocks = [(peids, sub_ids) for sub_ids, peids, _ in result.memberships()]
    return {pair for block in blocks for pair in zip(*map(np.ndarray.tolist, block), strict=True)}


def test_little_is_resolved_when_little_changed() -> None:
    """The control: a rule that resolves everything would be right, and worth nothing."""
    old: Rows = [(1, ("zone",), Point(0, 0)), (2, ("road",), Point(1, 1))]
    new = table_of([*old, (3, ("road",), Point(900, 0))], version=2)
    texts = ("({1},{road},DW5)", "({2},{#},I) • (Prev,{road},T)", "({1},{zone},D)")
    sets = registered([read_neighborhood(text) for text in texts], range(1, 100))
    assert incrementally(table_of(old), new, sets, whole=True, in_place=False)[1] == 0


SEARCH = settings(
    max_examples=1_000,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def differs(
    scene: tuple[EntityTable, EntityTable, list[Neighborhood]], *, in_place: bool = False
) -> bool:
    old, new, described = scene
    sets = registered(described, range(1, 100))
    found, _ = incrementally(old, new, sets, whole=True, in_place=in_place)
    return all_rows(found) != all_rows(resolve_by_plan(sets, plan_all(sets), place_of(new), HERE))


def test_a_rule_without_references_is_caught() -> None:
    def nothing_but_members(_: object, known: MemberRows) -> tuple[Any, ...]:
        return known.sets, known.stages, known.peids

    with patch.object(affected_sets, "_with_references", nothing_but_members):
        find(scenes(), differs, settings=SEARCH)


@pytest.mark.parametrize(
    ("condition", "name", "wrong", "place", "is_caught"),
    [
        ("DW5", "_reach", 0.0, Point(3, 4), True),
        ("DW5", "_reach", 0.0, Point(3, 4.5), False),
        ("D", "_near_only", True, Point(900, 0), True),
        ("NOT DW5", "_near_only", True, Point(900, 0), True),
        ("I", "_near_only", True, Point(900, 0), False),
    ],
)
def test_a_rule_with_too_short_a_sight_is_caught(
    condition: str, name: str, wrong: float, place: Point, is_caught: bool
) -> None:
    """Rare among drawn worlds: something arrives that is seen, and no box meets another."""
    old: Rows = [(1, ("zone",), Point(0, 0))]
    new = table_of([*old, (2, ("road",), place)], version=2)
    scene = (table_of(old), new, [read_neighborhood(f"({{1}},{{road}},{condition})")])
    assert not differs(scene)
    with patch.object(affected_sets, name, lambda _: wrong):
        assert differs(scene) == is_caught


def road(peid: int, west: float, east: float) -> tuple[int, tuple[str, ...], Any]:
    """Along one line: roads that share an end touch."""
    return (peid, ("road",), LineString([(west, 0), (east, 0)]))


ROW_OF_ROADS: Rows = [road(1, 0, 1), road(2, 1, 2), road(3, 2, 3)]
SHOP = (6, ("shop",), Point(0, 0))
HOPS = "({1,9},{road},T) • (Prev,{road},T)"
# What an in-place change must look at: rows before and after, the neighborhood.
IN_PLACE: dict[str, tuple[Rows, Rows, str]] = {
    # Road 2 goes, and with it what only it was tied to.
    "_doubtful": (ROW_OF_ROADS, [road(1, 0, 1), road(3, 2, 3)], HOPS),
    # Road 4 comes, at the end of road 1.
    "_arrived": (ROW_OF_ROADS, [*ROW_OF_ROADS, road(4, -1, 0)], HOPS),
    # Road 4 comes, at the place of a shop that stays as it is.
    "_tied_to_new": (
        [*ROW_OF_ROADS, SHOP], [*ROW_OF_ROADS, SHOP, road(4, -1, 0)],
        "({2},{road},T) • (Prev,{road},T) • ({2},{shop},T)",
    ),
    # Road 2 is a path now.
    "_touched_members": (
        ROW_OF_ROADS, [road(1, 0, 1), (2, ("path",), LineString([(1, 0), (2, 0)]))],
        "({1},{road},T)",
    ),
    # Reference 9 comes: road 3, which was in stage 2, is in stage 1.
    "_became_references": (ROW_OF_ROADS, [*ROW_OF_ROADS, road(9, 3, 4)], HOPS),
    # Reference 9 goes: road 3 falls back to stage 2.
    "_freed": ([*ROW_OF_ROADS, road(9, 3, 4)], ROW_OF_ROADS, HOPS),
}  # fmt: skip


@pytest.mark.parametrize("rule", IN_PLACE)
def test_changing_in_place_without_one_of_its_rules_is_caught(rule: str) -> None:
    before, after, text = IN_PLACE[rule]
    scene = (table_of(before), table_of(after, version=2), [read_neighborhood(text)])
    assert not differs(scene, in_place=True)
    nothing = np.empty(0, np.int64)
    with patch.object(ChangingRows, rule, lambda *_: nothing):
        assert differs(scene, in_place=True)


def test_a_moved_reference_that_counts_as_the_same_is_caught() -> None:
    """Its surroundings are others, although it is a reference before and after."""
    after = [road(1, 5, 6), *ROW_OF_ROADS[1:], road(4, 6, 7)]
    scene = (table_of(ROW_OF_ROADS), table_of(after, version=2), [read_neighborhood(HOPS)])
    assert not differs(scene, in_place=True)
    changed = ChangingRows._changed_references

    def without_touched(self: ChangingRows, kind: Any) -> Any:
        self._touched = self._touched[:0]
        return changed(self, kind)

    with patch.object(ChangingRows, "_changed_references", without_touched):
        assert differs(scene, in_place=True)


def test_looking_too_near_in_place_is_caught() -> None:
    old: Rows = [(1, ("zone",), Point(0, 0))]
    new = table_of([*old, (2, ("road",), Point(3, 4))], version=2)
    scene = (table_of(old), new, [read_neighborhood("({1},{road},DW5)")])
    assert not differs(scene, in_place=True)
    with patch.object(changed_world, "reach", lambda _: 0.0):
        assert differs(scene, in_place=True)


def test_nothing_is_resolved_where_all_can_be_changed_in_place() -> None:
    before, after, text = IN_PLACE["_became_references"]
    sets = registered([read_neighborhood(text)], range(1, 100))
    old, new = table_of(before), table_of(after, version=2)
    assert incrementally(old, new, sets, whole=True, in_place=True)[1] == 0


@pytest.mark.parametrize(("visible", "resolved"), [("01", 1), ("10", 0), ("11", 0)])
def test_members_that_nobody_kept_are_found_even_when_nothing_changed(
    visible: str, resolved: int
) -> None:
    """After Spark those of invisible stages are missing, and the next change needs them."""
    world = table_of(ROW_OF_ROADS)
    sets = registered([read_neighborhood(f"{HOPS} visible {visible}")], range(1, 100))
    found, count = incrementally(world, world, sets, whole=False, in_place=True)
    assert count == resolved
    full = resolve_by_plan(sets, plan_all(sets), place_of(world), HERE)
    assert all_rows(found, shown_only=True) == all_rows(full, shown_only=True)
