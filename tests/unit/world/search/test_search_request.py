"""The parameters of a search over HTTP: what they mean, and which are refused in one line."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from schemas.errors import SearchError
from world.search.entity_search import EntityQuery, read_request
from world.search.places import Place


def test_parameters_become_a_query() -> None:
    given = parse_qs("text=caf%C3%A9&category=food/%23&near=7.42,43.7&within=50&limit=3")
    expected = EntityQuery("café", "food/#", Place(7.42, 43.7), 50.0, 3)
    assert read_request(given) == expected
    assert read_request({"text": ["a"]}) == EntityQuery("a", limit=20)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "nothing to look for"),
        ("name=a", "unknown parameter 'name'; there are text, category, near, within, limit"),
        ("text=a&text=b", "'text' is given 2 times"),
        ("text=a&limit=0", "limit is a whole number from 1 to 1000, not '0'"),
        ("text=a&limit=1001", "not '1001'"),
        ("text=a&limit=99999999999999999999", "from 1 to 1000"),
        ("text=a&limit=-1", "not '-1'"),
        ("near=here", "LON,LAT"),
        ("near=7,43&within=far", "within is a number of metres, not 'far'"),
        ("near=7,43&within=nan", "at least 0"),
    ],
)
def test_a_wrong_parameter_is_named(query: str, said: str) -> None:
    with pytest.raises(SearchError) as caught:
        read_request(parse_qs(query))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
