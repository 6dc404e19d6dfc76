"""The category tree: each entity counts once at each place, wherever its categories are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import SearchError
from tests.strategies.worlds import CATEGORIES
from world.search.categories import CodedCategories, count_categories

LISTS = st.lists(st.lists(st.sampled_from(CATEGORIES), min_size=1, max_size=3, unique=True))


def coded(lists: list[list[str]]) -> CodedCategories:
    return CodedCategories.of(pa.chunked_array([pa.array(lists, pa.list_(pa.string()))]))


def counts(lists: list[list[str]], *options: object) -> dict[str, tuple[int, int]]:
    found = count_categories(coded(lists), *options)  # type: ignore[arg-type]
    return {one.category: (one.entities, one.here) for one in found}


TOWN = [["road/major"], ["road/major", "road/minor"], ["road", "zone/park"], ["road-works"]]


def test_an_entity_with_two_categories_below_a_place_counts_once() -> None:
    assert counts(TOWN) == {
        "road": (3, 1),
        "road/major": (2, 2),
        "road/minor": (1, 1),
        "road-works": (1, 1),
        "zone": (1, 0),
        "zone/park": (1, 1),
    }


def test_places_stand_below_the_place_above_them() -> None:
    assert list(counts(TOWN)) == [
        "road", "road/major", "road/minor", "road-works", "zone", "zone/park",
    ]  # fmt: skip


def test_a_pattern_and_a_depth_select_places_and_change_no_number() -> None:
    everything = counts(TOWN)
    for pattern, expected in [
        ("road/#", ["road", "road/major", "road/minor"]),
        ("+", ["road", "road-works", "zone"]),
        ("zone", ["zone"]),
    ]:
        assert counts(TOWN, pattern) == {place: everything[place] for place in expected}
    assert list(counts(TOWN, None, 1)) == ["road", "road-works", "zone"]


def test_a_pattern_without_a_place_says_what_there_is() -> None:
    with pytest.raises(SearchError, match="'rud'; there are road/#, road-works/#, zone/#"):
        counts(TOWN, "rud")


def test_an_empty_world_has_an_empty_tree() -> None:
    assert counts([]) == {}


@given(LISTS)
def test_numbers_are_those_of_the_definition(lists: list[list[str]]) -> None:
    for place, (entities, here) in counts(lists).items():
        below = [any((one + "/").startswith(place + "/") for one in each) for each in lists]
        assert (entities, here) == (sum(below), sum(place in each for each in lists))
