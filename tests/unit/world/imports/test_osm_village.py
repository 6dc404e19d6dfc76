"""The hand-drawn village: every entity can be checked against the drawing in the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import shapely

from world.long_work import silent
from world.sources.candidates import Candidates, Problem
from world.sources.osm.entities import read_osm
from world.sources.osm.rules import load_rules

VILLAGE = Path(__file__).resolve().parents[3] / "extracts" / "village.osm"
SEGMENT = 2**62

# Way -> its segments as the drawing shows them, by the nodes they run through.
SEGMENTS = {
    1: ["120 121 122", "122 123 124", "124 125 126"],
    2: ["122 132 142"],
    3: ["104 114 124", "124 134 144"],
    4: ["126 127", "127 128 138", "138 137 127", "127 117"],
    5: ["142 152", "152 162 163", "163 153 152"],
    6: ["147 157 156", "156 146 147"],
    7: ["147 148"],
    8: ["156 166"],
    9: ["160 161 171", "171 170 160"],
    10: ["180 181 182"],
    11: ["180 190 191 192 182"],
    12: ["105 106"],
    13: ["183 184"],
    14: ["185 186", "186 187"],
    15: ["201 202 203", "203 204 205"],
}

WHOLE_ENTITIES = {
    "node 140": ("shop/bakery", "shop/cafe"),
    "node 141": ("transport/stop/bus",),
    "node 143": ("shop/bikes_parts_1",),
    "way 17": ("rail/tram",),
    "way 18": ("place/pedestrian",),
    "way 22": ("building/retail", "shop/bakery", "shop/cafe"),
    "way 28": ("water/stream",),
    "way 29": ("water/pier",),
    "way 30": ("water/pier",),
    "relation 1": ("zone/landuse/grass",),
    "relation 2": ("zone/admin/8",),
}

PROBLEMS = {
    ("incomplete-way", True, "way 12"),
    ("incomplete-way", False, "way 27"),
    ("empty-geometry", False, "way 16"),
    ("open-area", False, "way 26"),
    ("broken-geometry", False, "way 25"),
    ("broken-geometry", False, "relation 4"),
    ("incomplete-relation", False, "relation 3"),
    ("duplicate-identical", True, "way 14, nodes 186 to 185"),
    ("duplicate-identical", True, "way 14, nodes 187 to 186"),
}


@pytest.fixture(scope="module")
def village() -> tuple[Candidates, list[Problem]]:
    return read_osm([VILLAGE], load_rules(), silent)


@pytest.fixture(scope="module")
def node_at() -> dict[tuple[float, float], str]:
    """Nodes by place, read with nothing of ours."""
    import osmium  # noqa: PLC0415

    return {
        (node.location.lon, node.location.lat): str(node.id)
        for node in osmium.FileProcessor(str(VILLAGE), osmium.osm.NODE)
    }


def test_roads_are_split_as_the_drawing_shows(
    village: tuple[Candidates, list[Problem]], node_at: dict[tuple[float, float], str]
) -> None:
    rows, _ = village
    found: dict[int, list[str]] = {}
    for position in range(len(rows)):
        if rows.peids[position] >= SEGMENT:
            way = int(rows.locator(position).split()[1].rstrip(","))
            path = " ".join(node_at[place] for place in rows.geometries[position].coords)
            found.setdefault(way, []).append(path)
    assert {way: sorted(paths) for way, paths in found.items()} == {
        way: sorted(paths) for way, paths in SEGMENTS.items()
    }


def test_segments_are_open_simple_lines(village: tuple[Candidates, list[Problem]]) -> None:
    rows, _ = village
    lines = rows.geometries[rows.peids >= SEGMENT]
    assert shapely.is_simple(lines).all()
    assert not shapely.is_closed(lines).any()


def test_segments_that_share_a_node_touch(village: tuple[Candidates, list[Problem]]) -> None:
    rows, _ = village
    ramp = [rows.locator(position).startswith("way 15,") for position in range(len(rows))]
    # The halves of the ramp do cross, one above the other.
    lines = rows.geometries[(rows.peids >= SEGMENT) & ~np.array(ramp)]
    ends = [{line.coords[0], line.coords[-1]} for line in lines]
    pairs = 0
    for first in range(len(lines)):
        for second in range(first):
            if set(lines[first].coords) & set(lines[second].coords):
                pairs += 1
                assert ends[first] & ends[second]
                assert lines[first].touches(lines[second])
    assert pairs == 28  # counted on the drawing, junction by junction


def test_other_elements_become_one_entity_each(village: tuple[Candidates, list[Problem]]) -> None:
    rows, _ = village
    found = {
        rows.locator(position): rows.categories[position]
        for position in range(len(rows))
        if rows.peids[position] < SEGMENT
    }
    assert found == WHOLE_ENTITIES


def test_peids_say_which_element_an_entity_is(village: tuple[Candidates, list[Problem]]) -> None:
    rows, _ = village
    peids = {rows.locator(position): int(rows.peids[position]) for position in range(len(rows))}
    assert peids["node 140"] == 1_000_000_000_000_140
    assert peids["way 17"] == 2_000_000_000_000_017
    assert peids["way 22"] == 3_000_000_000_000_022
    assert peids["relation 2"] == 4_000_000_000_000_002


def test_the_lawn_has_its_hole(village: tuple[Candidates, list[Problem]]) -> None:
    lawn = _geometry(village[0], "relation 1")
    assert lawn.geom_type == "Polygon"
    assert len(lawn.interiors) == 1
    assert not lawn.contains(shapely.Point(7.0015, 43.0005))
    assert lawn.contains(shapely.Point(7.0012, 43.0005))


def test_the_boundary_closes_out_of_two_ways(village: tuple[Candidates, list[Problem]]) -> None:
    boundary = _geometry(village[0], "relation 2")
    assert boundary.equals(shapely.Polygon([(7.007, 43), (7.008, 43), (7.008, 43.001)]))


def test_names_come_from_the_elements(village: tuple[Candidates, list[Problem]]) -> None:
    rows, _ = village
    names = {rows.locator(position): rows.names[position] for position in range(len(rows))}
    assert names["way 1, nodes 120 to 122"] == "High Street"
    assert names["relation 2"] == "Village"
    assert names["way 28"] is None


def test_whatever_could_not_be_used_is_listed(village: tuple[Candidates, list[Problem]]) -> None:
    _, problems = village
    found = [(str(problem.kind), problem.kept, problem.locator) for problem in problems]
    assert len(found) == len(set(found))
    assert set(found) == PROBLEMS


def _geometry(rows: Candidates, locator: str) -> shapely.Geometry:
    found = [rows.geometries[n] for n in range(len(rows)) if rows.locator(n) == locator]
    assert len(found) == 1
    return found[0]
