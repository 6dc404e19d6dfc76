"""Taking over what a change cannot reach gives what resolving everything gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely.geometry import Point

from rebuild.resolve import plan_all, resolve_by_plan
from rebuild.set_changes import SetChanges
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import read_neighborhood
from spatial_udfs.entity_table import EntityTable
from tests.oracle.definition import entities_of, resolve_by_definition
from tests.strategies.edited_worlds import (
    HOPS,
    ROW_OF_ROADS,
    THIS_PROCESS,
    Rows,
    all_rows,
    differs,
    edited,
    incrementally,
    place_of,
    registered,
    rows_of,
    scenes,
)
from tests.strategies.near_degenerate import near_degenerate_worlds, pair_world
from tests.strategies.neighborhoods import IN_DEGREES, neighborhoods
from tests.strategies.worlds import table_of
from world.memberships.resolved_sets import ResolvedSets


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
        for stage, peids in enumerate(
            resolve_by_definition(entities_of(world), each, world.srid)[0], start=1
        )
        for peid in peids
    )


@settings(max_examples=150)
@given(scene=scenes(), whole=st.booleans(), in_place=st.booleans())
def test_incremental_equals_full(
    scene: tuple[EntityTable, EntityTable, list[Neighborhood]], whole: bool, in_place: bool
) -> None:
    old, new, described = scene
    sets = registered(described, range(1, 100))
    found, _ = incrementally(old, new, sets, whole=whole, in_place=in_place)
    full = resolve_by_plan(sets, plan_all(sets), place_of(new), THIS_PROCESS)
    assert all_rows(found, shown_only=not whole) == all_rows(full, shown_only=not whole)
    assert found.resolved.tolist() == full.resolved.tolist()


@settings(max_examples=120)
@given(scene=scenes(srid=IN_DEGREES), whole=st.booleans(), in_place=st.booleans())
def test_incremental_equals_the_definition_with_places(
    scene: tuple[EntityTable, EntityTable, list[Neighborhood]], whole: bool, in_place: bool
) -> None:
    old, new, described = scene
    sets = registered(described, range(1, 100))
    found, _ = incrementally(old, new, sets, whole=whole, in_place=in_place)
    full = resolve_by_plan(sets, plan_all(sets), place_of(new), THIS_PROCESS)
    assert all_rows(found, shown_only=not whole) == all_rows(full, shown_only=not whole)
    assert found.resolved.tolist() == full.resolved.tolist()
    assert sets.with_a_reference(new.peids, new.srid).tolist() == full.resolved.tolist()
    if whole:
        by_set = [each for each in sets.neighborhoods if each is not None]
        assert all_rows(found) == by_definition(new, by_set)


def test_a_place_is_resolved_again_only_when_something_comes_near_it() -> None:
    """The control: a rule that resolves everything would be right, and worth nothing."""
    old: Rows = [(peid, ("road",), Point(peid, 0)) for peid in range(1, 20)]
    texts = [
        f"({{at:POINT({east} 0)}},{{{category}}},{condition})"
        for east in (40, 60)
        for category in ("road", "zone")
        for condition in ("DW5", "I", "D")
    ]
    sets = registered([read_neighborhood(text) for text in texts], range(1, 100))
    new = replace(table_of([*old, (30, ("road",), Point(42, 0))], version=2), srid=IN_DEGREES)
    before = replace(table_of(old), srid=IN_DEGREES)
    # One for being near, and those of both places that see what is far.
    assert incrementally(before, new, sets, whole=True, in_place=True)[1] == 1 + 2


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
        results.append(resolve_by_plan(sets, plan_all(sets), place_of(table), THIS_PROCESS))
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


@pytest.mark.parametrize(("visible", "resolved"), [("01", 1), ("10", 0), ("11", 0)])
def test_members_that_nobody_kept_are_found_even_when_nothing_changed(
    visible: str, resolved: int
) -> None:
    """After Spark those of invisible stages are missing, and the next change needs them."""
    world = table_of(ROW_OF_ROADS)
    sets = registered([read_neighborhood(f"{HOPS} visible {visible}")], range(1, 100))
    found, count = incrementally(world, world, sets, whole=False, in_place=True)
    assert count == resolved
    full = resolve_by_plan(sets, plan_all(sets), place_of(world), THIS_PROCESS)
    assert all_rows(found, shown_only=True) == all_rows(full, shown_only=True)
