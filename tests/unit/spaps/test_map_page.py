"""The map page as text: what is in it, and that nothing from data can become markup."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
import shapely

from spaps.map_page.drawn_entities import UNITS_PER_METRE, encode, grey_positions
from spaps.map_page.page import stage_colours
from tests.scenes.map_page import EVIL, LARGEST_PEID, page_and_world
from tests.strategies.worlds import table_of


def test_every_entity_is_there_once_with_its_stages() -> None:
    _, world = page_and_world()
    stages = {entity[0]: entity[5] for entity in world["entities"]}
    assert stages == {"7": [0], "8": [1], "9": [2], str(LARGEST_PEID): []}
    assert [stage["count"] for stage in world["stages"]] == [1, 1]
    assert [stage["visible"] for stage in world["stages"]] == [False, True]
    assert world["facts"].startswith("1 of 4 entities")
    assert world["references"] == "Zone"


def test_names_and_titles_cannot_become_markup() -> None:
    page, world = page_and_world(title=EVIL)
    assert world["title"] == EVIL
    assert EVIL in [entity[1] for entity in world["entities"]]
    assert "<img" not in page
    assert len(re.findall(r"<script", page)) == 2


def test_only_its_own_script_may_run_and_nothing_may_be_loaded() -> None:
    page, _ = page_and_world()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy.group(1).startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy.group(1)
    assert "://" not in page


@pytest.mark.parametrize(
    "geometry",
    [
        shapely.Point(1.04, 2),
        shapely.MultiPoint([(1, 2), (3, 4)]),
        shapely.LineString([(0, 0), (10.24, 5), (-3, 8)]),
        shapely.Polygon([(0, 0), (9, 0), (9, 9), (0, 9)], [[(2, 2), (2, 4), (4, 4), (4, 2)]]),
        shapely.MultiPolygon([shapely.box(0, 0, 1, 1), shapely.box(5, 5, 6, 6)]),
    ],
)
def test_encoded_shapes_decode_to_what_they_were(geometry: Any) -> None:
    others = [shapely.Point(0, 0), geometry, shapely.LineString([(0, 0), (1, 1)])]
    parts = encode(np.array(others, object), (-100.0, -200.0))[1]
    decoded = [
        (x / UNITS_PER_METRE - 100, y / UNITS_PER_METRE - 200)
        for part in parts
        for x, y in zip(accumulate(part[::2]), accumulate(part[1::2]), strict=True)
    ]
    true = shapely.get_coordinates(shapely.orient_polygons(geometry))
    assert np.abs(np.array(decoded) - true).max() <= 0.5 / UNITS_PER_METRE + 1e-6


def test_shells_and_holes_run_in_opposite_directions() -> None:
    ring = [(0, 0), (0, 9), (9, 9), (9, 0)]
    hole = [(2, 2), (2, 4), (4, 4), (4, 2)]
    areas = []
    for part in encode(np.array([shapely.Polygon(ring, [hole])], object), (0.0, 0.0))[0]:
        corners = list(zip(accumulate(part[::2]), accumulate(part[1::2]), strict=True))
        areas.append(shapely.LinearRing(corners).is_ccw)
    assert sorted(areas) == [False, True]


def test_a_large_world_shows_what_lies_around_the_result_and_says_so() -> None:
    rows = [(n, ("a",), shapely.Point(100.0 * n, 0)) for n in range(1000)]
    table = table_of(rows)
    drawn = np.array([500], np.int32)
    near, said = grey_positions(table, drawn, most=100)
    assert near.tolist() == [498, 499, 501, 502]
    assert said == "Of 999 other entities the page shows the 4 around the result."
    everything, nothing = grey_positions(table, drawn, most=999)
    assert len(everything) == 999
    assert nothing == ""


def test_a_result_all_over_a_large_world_keeps_the_largest_entities() -> None:
    lines = [shapely.LineString([(10 * n, 0), (10 * n + n, 0)]) for n in range(1, 50)]
    table = table_of([(n, ("a",), line) for n, line in enumerate(lines)])
    drawn = np.array([0, 48], np.int32)
    largest, said = grey_positions(table, drawn, most=5)
    assert largest.tolist() == [43, 44, 45, 46, 47]
    assert "the 5 largest" in said


@pytest.mark.parametrize("count", [1, 6, 7, 64])
def test_every_stage_has_a_colour_of_its_own(count: int) -> None:
    colours = stage_colours(count)
    assert len(set(colours)) == count
    assert all(re.fullmatch(r"#[0-9a-f]{6}", colour) for colour in colours)
