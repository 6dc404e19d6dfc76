"""Splits roads into segments that meet at their ends and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import shapely
from numpy.typing import NDArray

# Longitude and latitude of nodes, by id.
Locations = dict[int, tuple[float, float]]
# A piece needs an inner node to be halved, so that each half has two nodes.
SMALLEST_LOOP: Final = 3


@dataclass(frozen=True, slots=True)
class RoadWay:
    """A road way; its stretches have the nodes that the extract has, without gaps."""

    way: int
    stretches: tuple[tuple[int, ...], ...]
    categories: tuple[str, ...]
    name: str | None


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of one road, by its nodes."""

    road: RoadWay
    nodes: tuple[int, ...]


def stretches_of(nodes: Iterable[tuple[int, bool]]) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Return a way's nodes without immediate repetitions, cut where nodes have no location.

    ``nodes`` are the way's nodes and whether each has a location. Also returns the number of nodes
    without one.
    """
    stretches: list[list[int]] = [[]]
    missing = 0
    for node, has_place in nodes:
        if not has_place:
            missing += 1
            stretches.append([])
        elif not stretches[-1] or stretches[-1][-1] != node:
            stretches[-1].append(node)
    return tuple(tuple(stretch) for stretch in stretches if len(stretch) > 1), missing


def split_at(
    junctions: AbstractSet[int], roads: Sequence[RoadWay], locations: Locations
) -> list[Segment]:
    """Return the segments of some roads, all open, simple lines; the junctions of all are given.

    A road is split at every node where it meets another road or itself. A piece that is still
    closed, or crosses itself without a node (a spiral ramp), is halved until it is not.
    """
    pieces = [
        Segment(road, piece)
        for road in roads
        for stretch in road.stretches
        for piece in _pieces(stretch, junctions)
    ]
    return _simple(pieces, locations)


def line_of(nodes: Sequence[int], locations: Locations) -> Any:
    """Return the line through these nodes, in longitude and latitude."""
    return shapely.LineString([locations[node] for node in nodes])


def junctions_of(roads: Sequence[RoadWay]) -> frozenset[int]:
    """Return the nodes that roads pass more than once."""
    passed = [node for road in roads for node in passed_nodes(road)]
    nodes, counts = np.unique(np.array(passed, np.int64), return_counts=True)
    return frozenset(nodes[counts > 1].tolist())


def passed_nodes(road: RoadWay) -> Iterator[int]:
    """Yield each node as often as the road passes it.

    The node that closes a ring is passed once, although the list has it twice.
    """
    for stretch in road.stretches:
        yield from stretch[:-1] if stretch[0] == stretch[-1] else stretch


def _pieces(stretch: tuple[int, ...], junctions: AbstractSet[int]) -> Iterator[tuple[int, ...]]:
    nodes = _from_a_junction(stretch, junctions) if stretch[0] == stretch[-1] else stretch
    start = 0
    for position in range(1, len(nodes)):
        if nodes[position] in junctions or position == len(nodes) - 1:
            yield nodes[start : position + 1]
            start = position


def _from_a_junction(ring: tuple[int, ...], junctions: AbstractSet[int]) -> tuple[int, ...]:
    """Return the ring with a junction first: the node that it was drawn from has no meaning."""
    inner = ring[:-1]
    candidates = [node for node in inner if node in junctions] or inner
    start = inner.index(min(candidates))
    return (*inner[start:], *inner[:start], inner[start])


def _simple(pieces: list[Segment], locations: Locations) -> list[Segment]:
    done: list[Segment] = []
    while pieces:
        to_halve = _must_be_halved(pieces, locations)
        done += [piece for piece, halve in zip(pieces, to_halve, strict=True) if not halve]
        pieces = [
            Segment(piece.road, half)
            for piece, halve in zip(pieces, to_halve, strict=True)
            if halve
            for half in _halves(piece.nodes)
        ]
    return done


def _must_be_halved(pieces: Sequence[Segment], locations: Locations) -> NDArray[np.bool_]:
    lines = np.array([line_of(piece.nodes, locations) for piece in pieces])
    long_enough = np.array([len(piece.nodes) >= SMALLEST_LOOP for piece in pieces])
    result: NDArray[np.bool_] = long_enough & (shapely.is_closed(lines) | ~shapely.is_simple(lines))
    return result


def _halves(nodes: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    middle = len(nodes) // 2
    return nodes[: middle + 1], nodes[middle:]
