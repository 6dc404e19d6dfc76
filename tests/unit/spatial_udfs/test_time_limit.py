"""The time limit holds inside the longest single computation, and others compute meanwhile."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from broker.resolver.heavy_pairs import HeavyPairs
from schemas.errors import DeadlineError
from schemas.language.notation import parse_notation
from spatial_udfs.exact import candidate_search, related_pairs
from spatial_udfs.exact.exact_resolver import ExactResolver
from spatial_udfs.resolution_limits import UNLIMITED, ResolutionLimits, Turns
from spatial_udfs.topology import vertex_steps
from spatial_udfs.topology.vertex_steps import distances_in_steps, heavy_distance, steps_by_cost
from tests.strategies.worlds import table_of

SPIKY = 20_000


def ring(
    vertices: int,
    radius: float,
    spikes: float = 0.0,
    seed: int = 0,
    center: tuple[float, float] = (0.0, 0.0),
) -> Any:
    """The coordinates of a circle, or of one whose radius jumps from vertex to vertex."""
    angles = np.linspace(0, 2 * np.pi, vertices, endpoint=False)
    radii = radius * (1 + spikes * np.random.default_rng(seed).random(vertices))
    return np.c_[center[0] + radii * np.cos(angles), center[1] + radii * np.sin(angles)]


def test_steps_hold_their_cost_but_for_pairs_that_cost_more() -> None:
    costs = np.array([5, 5, 1, 12, 3, 3, 3, 3, 3, 3], np.int64)
    steps = [(one.start, one.stop) for one in steps_by_cost(costs, 10, 4)]
    assert steps == [(0, 2), (2, 3), (3, 4), (4, 7), (7, 10)]
    assert list(steps_by_cost(costs[:0], 10, 4)) == []


@pytest.mark.parametrize("reach", [0.0, 50.0, 6_000.0])
def test_a_crowded_part_of_a_wide_world_is_searched_in_steps(
    monkeypatch: pytest.MonkeyPatch, reach: float
) -> None:
    """One entity far away makes the crowd a small share of the world, but not of its pairs."""
    monkeypatch.setattr(candidate_search, "PAIRS_PER_STEP", 10_000)
    corners = np.random.default_rng(0).random((2_000, 2)) * 4_000
    crowd = shapely.box(*corners.T, *(corners.T + 1_000))
    search = candidate_search.CandidateSearch(np.append(crowd, shapely.Point(2e6, 2e6)))
    references = np.arange(400, dtype=np.int32)
    groups = list(search.steps(references, reach))
    assert np.concatenate(groups).tolist() == references.tolist()
    counts = [len(search.within(group, reach)[0]) for group in groups]
    assert max(counts) <= 2 * 10_000
    assert sum(counts) > 100_000


class Clock:
    """Limits whose time is up after so many looks at the clock."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def check_time(self) -> None:
        self.looks -= 1
        if self.looks < 0:
            raise DeadlineError("late")


@pytest.mark.parametrize("vertices", [800, 4_000])
def test_many_heavy_distances_look_at_the_clock_in_between(vertices: int) -> None:
    """Rings with a constant gap: GEOS compares each segment of one with each of the other."""
    around = shapely.Polygon(ring(vertices, 200), [ring(vertices, 101)])
    inner = shapely.Polygon(ring(vertices, 100))
    first = np.full(60, around, dtype=object)
    second = np.full(60, inner, dtype=object)
    limits: Any = Clock(5)
    with pytest.raises(DeadlineError):
        distances_in_steps(first, second, limits)


@given(seed=st.integers(0, 10_000), shift=st.floats(0, 400), kind=st.integers(0, 5))
def test_a_heavy_distance_is_what_geos_says_bit_for_bit(seed: int, shift: float, kind: int) -> None:
    one = shapely.Polygon(ring(300, 100, 0.5, seed, (500_000, 4_000_000)))
    other = shapely.Polygon(ring(200, 80, 0.5, seed + 1, (500_000 + shift, 4e6 + shift / 2)))
    corners = shapely.MultiPoint(shapely.get_coordinates(one))
    pair = [
        (one, other),
        (one.exterior, other),
        (one, other.exterior),
        (corners, other),
        (shapely.MultiPolygon([one]), corners),
        (shapely.MultiLineString([one.exterior, corners.convex_hull.exterior]), other.exterior),
    ][kind]
    assert heavy_distance(*pair, UNLIMITED) == shapely.distance(*pair)


@given(data=st.data(), length=st.integers(1, 9), is_closed=st.booleans())
def test_lines_are_cut_into_pieces_that_share_their_ends(
    data: st.DataObject, length: int, is_closed: bool
) -> None:
    sizes = data.draw(st.lists(st.integers(3, 20), max_size=5))
    kind = shapely.LinearRing if is_closed else shapely.LineString
    lines = np.array([kind(ring(size, 100)) for size in sizes] + [kind()], dtype=object)
    expected = []
    for line in lines:
        corners = shapely.get_coordinates(line)
        starts = range(0, len(corners) - 1, length)
        expected += [corners[start : start + length + 1].tolist() for start in starts]
    found = vertex_steps._pieces(lines, length)
    assert [shapely.get_coordinates(one).tolist() for one in found] == expected


def test_areas_of_many_parts_are_cut_without_a_step_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A loop over 100,000 parts took seconds, in which nobody looked at the clock."""
    monkeypatch.setattr(shapely, "LineString", None)
    west, south = np.divmod(np.arange(10_000), 100) * np.array([[4.0], [4.0]])
    one = shapely.multipolygons(shapely.box(west, south, west + 2, south + 2))
    other = shapely.multipolygons(shapely.box(west + 2.5, south + 2.5, west + 3, south + 3))
    assert heavy_distance(one, other, UNLIMITED) == 0.5**0.5
    for looks in range(3):
        limits: Any = Clock(looks)
        with pytest.raises(DeadlineError):
            heavy_distance(one, other, limits)


def test_two_rings_of_100_000_vertices_have_their_distance_in_many_steps() -> None:
    around = shapely.Polygon(ring(100_000, 200), [ring(100_000, 101)])
    inner = shapely.Polygon(ring(100_000, 100))
    assert heavy_distance(around, inner, UNLIMITED) == pytest.approx(1.0)
    limits: Any = Clock(100)
    with pytest.raises(DeadlineError):
        heavy_distance(around, inner, limits)


@pytest.fixture(scope="module")
def spiky() -> tuple[Any, Any]:
    """Two areas whose borders cross at nearly every vertex."""
    one, other = ring(SPIKY, 100, 0.2, 1), ring(SPIKY, 100, 0.2, 2, (50, 0))
    return shapely.Polygon(one), shapely.Polygon(other)


def resolver_of(*geometries: Any) -> ExactResolver:
    """Peids from 0."""
    return ExactResolver(table_of((peid, ("a",), one) for peid, one in enumerate(geometries)))


def test_a_heavy_pair_is_related_apart_and_others_compute_meanwhile(
    spiky: tuple[Any, Any],
) -> None:
    light = shapely.Point(1_000, 0), shapely.Point(1_000, 0)
    resolver = resolver_of(*spiky, *light)
    is_related, may_end = threading.Event(), threading.Event()

    def relate(first: Any, second: Any, seconds: float) -> str:
        assert 0 < seconds <= 60
        is_related.set()
        assert may_end.wait(60)
        return str(shapely.relate(first, second))

    found: list[list[int]] = []
    limits = ResolutionLimits.within(60, relate_apart=relate)
    heavy = parse_notation("({1},{#},O)")
    thread = threading.Thread(
        target=lambda: found.append(resolver.resolve(heavy, limits).peids().tolist())
    )
    thread.start()
    assert is_related.wait(60)
    assert resolver.resolve(parse_notation("({2},{#},E)"), limits).peids().tolist() == [3]
    may_end.set()
    thread.join()
    alone = resolver_of(*spiky, *light).resolve(heavy)
    assert found == [alone.peids().tolist()]


@pytest.mark.parametrize("radius", [90, 110])
def test_the_repair_of_a_heavy_matrix_is_computed_apart_too(
    monkeypatch: pytest.MonkeyPatch, radius: float
) -> None:
    """Lines of which some parts end in each other: where their ends lie takes GEOS minutes too."""
    monkeypatch.setattr(related_pairs, "RELATE_STEP_COST", 10_000)
    area = shapely.Polygon(ring(500, 100, 0.2, 1))
    corners = ring(200, radius)
    parts = [corners[start : start + 2] for start in range(0, 198, 2)]
    lines = shapely.MultiLineString([*parts, corners[-3:-1], corners[-2:]])
    assert 0 < len(lines.boundary.geoms) < 2 * len(lines.geoms)
    asked: list[Any] = []

    def relate(first: Any, second: Any, seconds: float) -> str:
        assert 0 < seconds <= 60
        asked.append(second)
        return str(shapely.relate(first, second))

    limits = ResolutionLimits.within(60, relate_apart=relate)
    for geometries in ((lines, area), (area, lines)):
        for mask in ("*****0***", "*******0*"):
            descriptor = parse_notation(f"({{0}},{{#}},I AND Relate({mask}))")
            alone = resolver_of(*geometries).resolve(descriptor).peids().tolist()
            asked.clear()
            assert resolver_of(*geometries).resolve(descriptor, limits).peids().tolist() == alone
            assert asked[1:] == [lines.boundary], "the matrix, then the ends"


def test_a_process_for_heavy_pairs_ends_in_time_and_another_answers(
    spiky: tuple[Any, Any],
) -> None:
    pairs = HeavyPairs()
    with pytest.raises(DeadlineError, match="very many vertices"):
        pairs.relate(*spiky, 0.05)
    light = shapely.box(0, 0, 2, 2), shapely.box(1, 1, 3, 3)
    assert pairs.relate(*light, 60) == shapely.relate(*light)
    assert pairs.relate(*reversed(light), 60) == shapely.relate(*reversed(light))


def test_warming_up_leaves_heavy_pairs_alone(spiky: tuple[Any, Any]) -> None:
    resolver = resolver_of(*spiky, shapely.Point(0, 0))
    assert resolver.warm_up()
    asked: list[float] = []

    def relate(first: Any, second: Any, seconds: float) -> str:
        asked.append(seconds)
        return str(shapely.relate(first, second))

    limits = ResolutionLimits.within(60, relate_apart=relate)
    assert resolver.resolve(parse_notation("({0},{#},O)"), limits).peids().tolist() == [1]
    assert len(asked) == 1


def test_turns_come_in_the_order_of_asking() -> None:
    turns, order = Turns(), []

    def work(number: int) -> None:
        with turns.turn(UNLIMITED):
            order.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    with turns.turn(UNLIMITED):
        for number, thread in enumerate(threads):
            thread.start()
            while turns.waiting <= number:
                time.sleep(0.001)
        with pytest.raises(DeadlineError, match="busy"), turns.turn(ResolutionLimits.within(0)):
            pass
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3]
    assert not turns.waiting
