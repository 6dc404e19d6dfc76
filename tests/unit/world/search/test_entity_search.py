"""Searching a small town: what matches, in which order, how far away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from pyproj import Transformer

from schemas.errors import SearchError
from testing.world_writers import entity_rows
from tests.scenes.searched_town import CORNER, ENTITIES, key_of, town, write_town
from world.search.entity_search import EntityQuery, SearchResult, find_entities
from world.search.places import Place, read_place
from world.search.searched_world import SearchedWorld, fold
from world.versions.store import WorldStore

Find = Callable[..., SearchResult]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> SearchedWorld:
    return SearchedWorld.open(write_town(tmp_path_factory.mktemp("town") / "world"))


@pytest.fixture
def find(world: SearchedWorld) -> Find:
    return lambda *text, **query: find_entities(world, EntityQuery(*text, **query))


def peids(result: SearchResult) -> list[int]:
    return [one.peid for one in result.entities]


def test_the_best_match_comes_first(find: Find) -> None:
    # Names, a beginning, beginnings of words (short names first), inside a word, a category.
    assert peids(find("ete")) == [1, 7, 3, 4, 2, 5, 6]
    assert peids(find("ÉTÉ")) == peids(find("ete"))


def test_all_words_of_the_text_are_needed_in_any_order(find: Find) -> None:
    assert peids(find("ete cafe")) == [2]
    assert peids(find("ete stop")) == []


def test_by_peid_and_by_key(find: Find) -> None:
    assert peids(find("4"))[0] == 4
    assert peids(find(str(2**63 - 1))) == [2**63 - 1]
    assert peids(find("way/4#1"))[0] == 4
    assert set(peids(find("way"))) == {peid for peid, _, _ in ENTITIES}
    assert find("99999999999999999999999").count == 0


def test_by_category_alone_and_with_a_text(find: Find) -> None:
    assert peids(find(category="food/bar")) == [3, 2]
    assert peids(find("ete", category="zone/#")) == [7, 4]
    assert peids(find("road")) == [5, 8, 6]


def test_a_world_whose_keys_are_peids_is_searched_by_names(tmp_path: Path) -> None:
    store = WorldStore(str(tmp_path / "world"))
    store.write_version(entity_rows(town()), srid=town().srid)
    opened = SearchedWorld.open(store.path)
    assert not opened.has_keys
    (stop,) = find_entities(opened, EntityQuery("stop")).entities
    assert (stop.peid, stop.key) == (2**63 - 1, str(2**63 - 1))


def test_the_count_is_of_all_and_the_limit_keeps_the_order(find: Find) -> None:
    everything = find("ete", limit=0)
    for limit in range(1, 9):
        some = find("ete", limit=limit)
        assert some.count == everything.count == 7
        assert some.entities == everything.entities[:limit]


def test_around_a_place_the_nearest_come_first_with_exact_distances(find: Find) -> None:
    to_degrees = Transformer.from_crs(25833, "OGC:CRS84", always_xy=True)
    x, y = CORNER[0] + 3100, CORNER[1] + 40
    place = Place(*to_degrees.transform(x, y))
    result = find(near=place, limit=0)
    table = town()
    true = shapely.distance(table.geometries, shapely.Point(x, y))
    assert peids(result) == table.peids[np.argsort(true)].tolist()
    distances = [one.distance for one in result.entities]
    assert np.allclose(distances, np.sort(true), rtol=0, atol=1e-5)
    assert peids(find(near=place, within=1000)) == [4, 5]
    assert peids(find("ete", near=place, category="zone/#")) == [4, 7]
    # Negative control: from another place another entity is the nearest.
    elsewhere = Place(*to_degrees.transform(*CORNER))
    assert peids(find(near=elsewhere))[0] == 1


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({}, "nothing to look for"),
        ({"text": "#"}, "no letter, digit or symbol"),
        ({"text": "a" * 201}, "longer than 200"),
        ({"text": "a", "within": 5.0}, "needs a place"),
        ({"near": Place(7, 43), "within": -1.0}, "at least 0"),
        ({"near": Place(7, 43), "within": float("nan")}, "at least 0"),
        ({"text": "a", "limit": -1}, "at least 0"),
        ({"category": "food"}, "'food': food/# has everything below it"),
        ({"category": "nowhere"}, "there are food/#"),
        ({"category": "#/a"}, "is wrong"),
    ],
)
def test_a_query_that_cannot_be_answered(find: Find, query: dict[str, object], said: str) -> None:
    with pytest.raises(Exception, match=said) as caught:
        find(**query)
    assert type(caught.value).__name__ in ("SearchError", "DescriptorError")


@pytest.mark.parametrize("text", ["", "7", "7,43,1", "a,b", "nan,1", "43.7,97.4", "200,0"])
def test_a_place_that_is_none(text: str) -> None:
    with pytest.raises(SearchError, match=r"LON,LAT"):
        read_place(text)


def test_swapped_degrees_are_noticed() -> None:
    with pytest.raises(SearchError, match="longitude comes first"):
        read_place("43.7,97.4")
    assert read_place(" 7.42, 43.74") == Place(7.42, 43.74)


@given(st.text("eét ra1", min_size=1, max_size=4).filter(lambda text: bool(fold(text))))
def test_all_and_only_what_contains_the_words_is_found(world: SearchedWorld, text: str) -> None:
    found = {one.peid for one in find_entities(world, EntityQuery(text, limit=0)).entities}
    words = fold(text).split()
    for peid, name, categories in ENTITIES:
        in_name = name is not None and all(word in fold(name) for word in words)
        in_key = fold(text) in fold(key_of(peid))
        levels = [fold(level) for category in categories for level in category.split("/")]
        in_category = any(level.startswith(fold(text)) for level in levels)
        assert (peid in found) == (in_name or in_key or in_category)
