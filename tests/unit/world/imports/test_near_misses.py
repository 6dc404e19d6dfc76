"""Near misses are found and counted, and snapping makes them touch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from tests.scenes.source_files import write_geoparquet
from world.imports.geometry_checks import near_misses
from world.imports.snapping import snap
from world.imports.world_import import import_world
from world.long_work import silent
from world.snapshot import load_snapshot

ZONE = shapely.box(0, 0, 10, 10)
LITTLE = 4e-7


def shapes(*geometries: shapely.Geometry) -> np.ndarray:
    array = np.empty(len(geometries), object)
    array[:] = geometries
    return array


def missed(*geometries: shapely.Geometry) -> list[list[int]]:
    return near_misses(shapes(*geometries), silent).tolist()


@pytest.mark.parametrize(
    "other",
    [
        shapely.LineString([(5, 10 + LITTLE), (5, 15)]),
        shapely.Point(3, -LITTLE),
        shapely.MultiPolygon([shapely.box(10 + LITTLE, 2, 12, 4), shapely.box(20, 2, 22, 4)]),
        shapely.MultiLineString([[(5, 20), (5, 15)], [(5, 15), (0, 10 + LITTLE)]]),
        shapely.box(-2, -2, -LITTLE, -LITTLE),
    ],
    ids=lambda other: other.geom_type,
)
def test_a_near_miss_touches_after_snapping(other: shapely.Geometry) -> None:
    before = shapes(ZONE, other)
    assert near_misses(before, silent).tolist() == [[0, 1]]
    after = snap(before, 0.001, silent)
    assert after.inserted + after.joined > 0
    assert len(after.refused) == 0
    assert shapely.touches(*after.geometries)
    assert missed(*after.geometries) == []
    assert [g.geom_type for g in after.geometries] == [g.geom_type for g in before]
    for old, new in zip(before, after.geometries, strict=True):
        assert shapely.hausdorff_distance(old, new) < 0.001


@pytest.mark.parametrize(
    "others",
    [
        [shapely.box(10, 2, 12, 4)],  # touches
        [shapely.box(9, 2, 12, 4)],  # overlaps
        [shapely.Point(5, 10.002)],
        [shapely.Point(50, 50)] * 3,
        [],
    ],
)
def test_what_touches_overlaps_or_is_away_is_no_near_miss(others: list[shapely.Geometry]) -> None:
    assert missed(ZONE, *others) == []


def test_many_equal_entities_count_once() -> None:
    """Thousands at one place would be millions of pairs."""
    points = [shapely.Point(5, 10 + LITTLE)] * 3_000
    assert missed(ZONE, *points) == [[0, 1]]


def test_vertices_of_a_common_border_are_inserted_in_both_directions() -> None:
    """A road crosses the border of two zones that share the edge, drawn in opposite directions."""
    left, right = shapely.box(0, 0, 10, 10), shapely.box(10, 0, 20, 10)
    roads = [shapely.LineString([(10 + LITTLE, y), (30, y)]) for y in (2, 5, 7)]
    after = snap(shapes(left, right, *roads), 0.001, silent)
    assert shapely.touches(after.geometries[0], after.geometries[1])
    assert shapely.relate(after.geometries[0], after.geometries[1]) == "FF2F11212"
    assert shapely.touches(after.geometries[0], after.geometries[2:]).all()


def test_a_vertex_that_would_break_a_shape_is_left_out() -> None:
    """The spike is thinner than the distance: its other side would be pulled across it."""
    thin = shapely.Polygon([(0, 0), (10, 0), (10, 10), (5.0005, 0.0001), (5, 10), (0, 10)])
    point = shapely.Point(5.0001, -0.0006)
    after = snap(shapes(thin, point), 0.5, silent)
    assert shapely.is_valid(after.geometries).all()


def test_nothing_to_insert_changes_nothing() -> None:
    before = shapes(ZONE, shapely.Point(50, 50), shapely.LineString([(10, 10), (20, 20)]))
    after = snap(before, 0.001, silent)
    assert (after.inserted, after.joined, len(after.changed), len(after.refused)) == (0,) * 4
    assert shapely.equals_identical(before, after.geometries).all()
    assert snap(before[:0], 1, silent).inserted == 0


@given(
    st.lists(st.tuples(st.floats(0.5, 9.5), st.floats(-9e-4, 9e-4)), max_size=8),
    st.sampled_from([0.0, 390_000.0]),
)
def test_points_near_an_edge_touch_it_after_snapping(
    places: list[tuple[float, float]], away: float
) -> None:
    zone = shapely.box(away, 0, away + 10, 10)
    points = [shapely.Point(away + x, y) for x, y in places]
    after = snap(shapes(zone, *points), 0.001, silent)
    snapped, *left = after.geometries
    assert shapely.is_valid(snapped)
    if not len(after.refused):
        assert shapely.intersects(snapped, shapes(*left)).all()


def test_an_import_counts_near_misses_and_snaps(tmp_path: Path) -> None:
    rows = [
        {"peid": 1, "categories": ["zone"], "geometry": ZONE},
        {
            "peid": 2,
            "categories": ["road"],
            "geometry": shapely.LineString([(5, 10 + LITTLE), (5, 15)]),
        },
    ]
    source = write_geoparquet(tmp_path / "s.parquet", rows)
    plain = import_world([source], tmp_path / "world")
    [note] = plain.notes
    assert note.startswith("1 near miss: pairs closer than 1 mm that do not touch, such as 1 and 2")
    assert "--snap 0.001" in note
    snapped = import_world([source], tmp_path / "world", snap=0.001)
    assert snapped.created
    assert snapped.notes == ("inserted 1 vertex, which changed 1 entity",)
    table = load_snapshot(str(tmp_path / "world"))
    assert shapely.touches(*table.geometries)
    assert not import_world([source], tmp_path / "world", snap=0.001).created
