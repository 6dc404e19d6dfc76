"""Each rule of the incremental rebuild is needed: without it a search finds a difference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, settings
from shapely.geometry import LineString, Point

from schemas.language.notation import read_neighborhood
from spatial_udfs.incremental import affected_sets, changed_world
from spatial_udfs.incremental.incremental_stage import ChangingRows
from spatial_udfs.incremental.member_rows import MemberRows
from tests.strategies.edited_worlds import (
    HOPS,
    ROW_OF_ROADS,
    Rows,
    differs,
    incrementally,
    registered,
    road,
    scenes,
)
from tests.strategies.neighborhoods import IN_DEGREES
from tests.strategies.worlds import table_of

SEARCH = settings(
    max_examples=1_000,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_a_rule_without_references_is_caught() -> None:
    def nothing_but_members(_: object, known: MemberRows) -> tuple[Any, ...]:
        return known.sets, known.stages, known.peids

    with patch.object(affected_sets, "_with_references", nothing_but_members):
        find(scenes(), differs, settings=SEARCH)


def test_a_rule_without_places_is_caught() -> None:
    """Rare among drawn worlds: a road arrives near a place, and near no entity."""
    old: Rows = [(1, ("zone",), Point(900, 0))]
    before = replace(table_of(old), srid=IN_DEGREES)
    after = replace(table_of([*old, road(2, 3, 4)], version=2), srid=IN_DEGREES)
    scene = (before, after, [read_neighborhood("({at:POINT(0 0)},{road},DW5)")])
    # In place, because else a great change resolves all sets with places.
    assert not differs(scene, in_place=True)
    with patch.object(affected_sets, "_sets_with_seeing_places", lambda *_: []):
        assert differs(scene, in_place=True)


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


SHOP = (6, ("shop",), Point(0, 0))
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
