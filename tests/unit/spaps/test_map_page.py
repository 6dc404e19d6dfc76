"""The map page as text: what is in it, and that nothing from data can become markup."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely

from schemas.language.notation import read_neighborhood
from spaps.map_page.packed_world import UNITS_PER_METRE, paths_of
from spaps.map_page.page import PageTexts, grey_positions, map_page, stage_colours
from spatial_udfs.exact.exact_resolver import ExactResolver
from spatial_udfs.place_geometries import projected_places
from tests.scenes.map_page import (
    EVIL,
    LARGEST_PEID,
    columns_of,
    page_and_world,
    small_world,
    whole_world_page,
    world_of,
)
from tests.strategies.worlds import table_of


def test_every_entity_is_there_once_with_its_stages() -> None:
    page, world = page_and_world()
    columns = columns_of(page)
    assert columns["peids"].tolist() == [7, 8, 9, LARGEST_PEID]
    members = np.split(columns["stageMembers"], np.cumsum(world["stageSizes"])[:-1])
    assert [columns["peids"][of_stage].tolist() for of_stage in members] == [[7], [8], [9]]
    assert [stage["visible"] for stage in world["stages"]] == [False, True]
    assert world["facts"].startswith("1 of 4 entities")
    assert world["references"] == "Zone"


def test_a_whole_world_has_every_entity_and_no_stage() -> None:
    page, world = whole_world_page(small_world())
    columns = columns_of(page)
    assert columns["peids"].tolist() == [7, 8, 9, LARGEST_PEID]
    assert [columns["names"][code] for code in columns["nameCodes"]] == ["Zone", EVIL, None, "Stop"]
    codes = [world["categorySets"][number] for number in columns["categorySets"]]
    told = [[world["categories"][code] for code in of_entity] for of_entity in codes]
    assert told == [["zone"], ["road/main"], ["road/main"], ["stop"]]
    assert columns["kinds"].tolist() == [2, 1, 1, 0]
    assert world["stages"] == []
    assert world["stageSizes"] == [0]


@pytest.mark.parametrize("with_keys", [True, False])
def test_a_place_is_drawn_as_a_reference(with_keys: bool) -> None:
    table = small_world()
    if with_keys:
        table = replace(table, keys=pa.array(["z", "a", "b", "s"]))
    place = "POLYGON((15 45.1,15.1 45.1,15.1 45.2,15 45.1))"
    neighborhood = read_neighborhood(f"({{7,at:{place},at:POINT(99 0)}},{{#}},I)")
    resolution = ExactResolver(table).resolve(neighborhood)
    page = map_page(table, neighborhood, resolution, PageTexts("", stages=["what meets it"]))
    columns, world = columns_of(page), world_of(page)
    assert columns["peids"].tolist() == [2**64 - 1, 7, 8, 9, LARGEST_PEID]
    assert columns["names"][columns["nameCodes"][0]] == f"at:{place}"
    assert columns.get("keys", ["", "z"])[:2] == ["", "z"]
    assert columns["stageMembers"][: world["stageSizes"][0]].tolist() == [0, 1]
    assert world["references"] == f"Zone, {place}, POINT(99 0)"
    assert " of 4 entities" in world["facts"]
    codes = [world["categorySets"][number] for number in columns["categorySets"]]
    told = [[world["categories"][code] for code in of_entity] for of_entity in codes]
    assert told[:2] == [["place"], ["zone"]]
    [drawn], _ = projected_places((place,), table.srid)
    east = np.cumsum(columns["xSteps"])[: columns["vertices"][0]] / UNITS_PER_METRE
    corners = shapely.get_coordinates(drawn)[:, 0]
    assert sorted(east + world["origin"][0]) == pytest.approx(sorted(corners), abs=0.1)


def test_a_reference_that_the_world_lacks_is_left_out() -> None:
    table = small_world()
    neighborhood = read_neighborhood("({7,1000},{road/#},C)")
    resolution = ExactResolver(table).resolve(neighborhood)
    page = map_page(table, neighborhood, resolution, PageTexts("", stages=["roads"]))
    assert columns_of(page)["stageMembers"].tolist() == [0, 1]


def test_names_and_titles_cannot_become_markup() -> None:
    page, world = page_and_world(title=EVIL)
    assert world["title"] == EVIL
    assert EVIL in columns_of(page)["names"]
    assert "<img" not in page
    assert len(re.findall(r"<script", page)) == 3


def test_only_its_own_script_may_run_and_nothing_may_be_loaded() -> None:
    page, _ = page_and_world()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy.group(1).startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy.group(1)
    assert "://" not in page


SQUARE_WITH_HOLE = shapely.Polygon(
    [(0, 0), (9, 0), (9, 9), (0, 9)], [[(2, 2), (2, 4), (4, 4), (4, 2)]]
)


@pytest.mark.parametrize(
    "geometry",
    [
        shapely.Point(1.04, 2),
        shapely.MultiPoint([(1, 2), (3, 4)]),
        shapely.LineString([(0, 0), (10.24, 5), (-3, 8)]),
        SQUARE_WITH_HOLE,
        shapely.MultiPolygon([shapely.box(0, 0, 1, 1), shapely.box(5, 5, 6, 6)]),
    ],
)
def test_packed_shapes_unpack_to_what_they_were(geometry: Any) -> None:
    others = [shapely.Point(0, 0), geometry, shapely.LineString([(0, 0), (1, 1)])]
    packed = paths_of(np.array(others, object), (-100.0, -200.0))
    places = np.cumsum(packed.steps, axis=0) / UNITS_PER_METRE + (-100, -200)
    vertices = packed.vertices.tolist()
    first, second = packed.paths[:2].tolist()
    start, end = sum(vertices[:first]), sum(vertices[: first + second])
    true = shapely.get_coordinates(shapely.orient_polygons(geometry))
    assert np.abs(places[start:end] - true).max() <= 0.5 / UNITS_PER_METRE + 1e-6
    assert np.abs(places[end:] - [(0, 0), (1, 1)]).max() <= 1e-6


def test_shells_and_holes_run_in_opposite_directions() -> None:
    packed = paths_of(np.array([SQUARE_WITH_HOLE], object), (0.0, 0.0))
    rings = np.split(np.cumsum(packed.steps, axis=0), np.cumsum(packed.vertices)[:-1])
    assert sorted(shapely.LinearRing(ring).is_ccw for ring in rings) == [False, True]


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


def test_keys_are_packed_where_they_are_more_than_peids() -> None:
    table = small_world()
    assert "keys" not in columns_of(whole_world_page(table)[0])
    keys = ["a", "b#1", EVIL, "d"]
    with_keys = replace(table, keys=pa.array(keys))
    assert columns_of(whole_world_page(with_keys)[0])["keys"] == keys
