"""Splitting and numbering of roads over random road networks."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from shapely import LineString

from world.sources.osm.peids import SEGMENT_BASE, segment_peid
from world.sources.osm.segments import Locations, RoadWay, Segment, junctions_of, split_at

# A small grid, so that roads meet each other and themselves all the time. The third number
# keeps places apart that lie in one line, which would only make every line look folded.
NODES = 24
LOCATIONS: Locations = {
    node: (node % 5 + node * node / 1000, node // 5 + node * 7 % 11 / 1000)
    for node in range(1, NODES + 1)
}

node_lists = st.lists(st.integers(1, NODES), min_size=2, max_size=9).map(
    lambda nodes: tuple(n for n, before in zip(nodes, [0, *nodes], strict=False) if n != before)
)
networks = st.lists(node_lists.filter(lambda nodes: len(nodes) > 1), min_size=1, max_size=8)


def roads_of(network: list[tuple[int, ...]], first_way: int = 1) -> list[RoadWay]:
    return [RoadWay(way, (nodes,), ("road",), None) for way, nodes in enumerate(network, first_way)]


def split_roads(roads: list[RoadWay], locations: Locations) -> list[Segment]:
    return split_at(junctions_of(roads), roads, locations)


def steps(nodes: tuple[int, ...]) -> Counter[frozenset[int]]:
    return Counter(frozenset(pair) for pair in itertools.pairwise(nodes))


def identity(segment: Segment) -> tuple[int, tuple[int, ...]]:
    return segment.road.way, min(segment.nodes, segment.nodes[::-1])


@given(networks)
def test_segments_cover_each_road_exactly(network: list[tuple[int, ...]]) -> None:
    roads = roads_of(network)
    segments = split_roads(roads, LOCATIONS)
    for road in roads:
        covered: Counter[frozenset[int]] = Counter()
        for segment in segments:
            if segment.road is road:
                covered += steps(segment.nodes)
        assert covered == steps(road.stretches[0])


@given(networks)
def test_a_node_inside_a_segment_belongs_to_no_other(network: list[tuple[int, ...]]) -> None:
    segments = split_roads(roads_of(network), LOCATIONS)
    passed = Counter(node for segment in segments for node in set(segment.nodes))
    for segment in segments:
        assert segment.nodes[0] != segment.nodes[-1]
        assert len(set(segment.nodes)) == len(segment.nodes)
        assert all(passed[node] == 1 for node in segment.nodes[1:-1])


@given(networks)
def test_a_road_is_split_only_where_it_must_be(network: list[tuple[int, ...]]) -> None:
    """Every cut is a junction, or lies on a stretch that was closed or crossed itself."""
    roads = roads_of(network)
    passed: Counter[int] = Counter()
    for road in roads:
        nodes = road.stretches[0]
        passed.update(nodes[:-1] if nodes[0] == nodes[-1] else nodes)
    for segment in split_roads(roads, LOCATIONS):
        nodes = segment.road.stretches[0]
        for end in (segment.nodes[0], segment.nodes[-1]):
            is_end_of_road = end in (nodes[0], nodes[-1]) and nodes[0] != nodes[-1]
            if passed[end] == 1 and not is_end_of_road:
                assert _needs_halving(nodes, end, passed)


def _needs_halving(nodes: tuple[int, ...], cut: int, passed: Counter[int]) -> bool:
    """Whether the stretch between junctions around a node is closed or crosses itself."""
    if nodes[0] == nodes[-1]:
        ring = nodes[:-1]
        turn = ring.index(cut)
        around = (*ring[turn:], *ring[:turn], cut)
        after = next((n for n in around[1:] if passed[n] > 1), cut)
        before = next((n for n in around[-2::-1] if passed[n] > 1), cut)
        if after == before:
            return True
        start, stop = around.index(after), len(around) - 1 - around[::-1].index(before)
        piece = (*around[stop:-1], *around[: start + 1])
    else:
        place = nodes.index(cut)
        start = max((n for n in range(place) if passed[nodes[n]] > 1), default=0)
        stop = min(
            (n for n in range(place + 1, len(nodes)) if passed[nodes[n]] > 1),
            default=len(nodes) - 1,
        )
        piece = nodes[start : stop + 1]
    line = LineString([LOCATIONS[node] for node in piece])
    return piece[0] == piece[-1] or not line.is_simple


@given(networks)
def test_different_segments_have_different_peids(network: list[tuple[int, ...]]) -> None:
    segments = {identity(segment) for segment in split_roads(roads_of(network), LOCATIONS)}
    peids = {segment_peid(way, nodes) for way, nodes in segments}
    assert len(peids) == len(segments)
    assert all(SEGMENT_BASE <= peid < 2**63 for peid in peids)


@given(networks, st.data())
def test_drawing_a_road_the_other_way_round_changes_no_peid(
    network: list[tuple[int, ...]], data: st.DataObject
) -> None:
    turned = data.draw(st.integers(0, len(network) - 1))
    forward = split_roads(roads_of(network), LOCATIONS)
    network[turned] = network[turned][::-1]
    backward = split_roads(roads_of(network), LOCATIONS)
    junction_cuts = {
        identity(segment): segment_peid(segment.road.way, segment.nodes) for segment in backward
    }
    for segment in forward:
        same = junction_cuts.get(identity(segment))
        assert same in (None, segment_peid(segment.road.way, segment.nodes))
