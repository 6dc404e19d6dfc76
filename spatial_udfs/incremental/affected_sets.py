"""Which neighborhoods a change of the world can reach.

All others have the members they had. Let a stage have the same references in both versions, none
of them touched by the change. An entity that was not touched then is a member of it in both or in
neither. A touched one counts only when it was a member (the old rows say so), or when it can become
one: it has one of the stage's categories now, and it lies near a reference, or the condition holds
from afar. When none of that happens in any stage, then, stage by stage, nothing is different.

A place is a reference that no change touches, as long as the CRS stays the same.

What is near is decided by boxes, so some neighborhoods are resolved again and stay the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import shapely
from numpy.typing import NDArray

from schemas.language.conditions import Condition, reach
from schemas.language.neighborhood import Neighborhood
from schemas.topology.relations import always_false_when_far
from spatial_udfs.entity_table import (
    Bools,
    CategoryMasks,
    EntityTable,
    Geometries,
    Int32s,
    Int64s,
)
from spatial_udfs.incremental.member_rows import MemberRows
from spatial_udfs.incremental.world_changes import WorldChanges
from spatial_udfs.place_geometries import projected_places

# From how far away a stage sees an entity: in metres, or from anywhere.
ANYWHERE: Final = math.inf
# How many sets of patterns are told apart. More cost time, fewer only resolve more than needed.
MOST_PATTERNS: Final = 64
EVERYTHING: Final = frozenset({"#"})
# In crowded parts of a world each of them meets thousands of boxes.
PLACES_AT_ONCE: Final = 1_000

Sight = tuple[float, frozenset[str]]

_reach = lru_cache(maxsize=4096)(reach)
_near_only = lru_cache(maxsize=4096)(always_false_when_far)


def affected_sets(
    neighborhoods: Sequence[Neighborhood | None],
    known: MemberRows,
    changes: WorldChanges,
    new: EntityTable,
    asked: Bools,
) -> Bools:
    """Return for each set that is asked for whether it must be resolved again.

    ``known`` are the old members of these sets, of every stage that another one starts from.
    """
    affected = np.zeros(len(neighborhoods), np.bool_)
    neighborhoods = [
        neighborhood if wanted else None
        for neighborhood, wanted in zip(neighborhoods, asked.tolist(), strict=True)
    ]
    touched = changes.touched()
    if not len(touched) or not asked.any():
        return affected
    sets, stages, peids = _with_references(neighborhoods, known)
    affected[sets[np.isin(peids, touched)]] = True
    influence = _Influence(changes, new)
    places = np.searchsorted(new.peids, peids)
    places[places == len(new)] = 0
    for sight, watched in _watched_stages(neighborhoods).items():
        seen = influence.of(*sight)
        if seen is not None:
            affected[sets[watched[sets, stages] & seen[places]]] = True
    affected[_sets_with_seeing_places(neighborhoods, influence, new.srid)] = True
    return affected


def _sets_with_seeing_places(
    neighborhoods: Sequence[Neighborhood | None], influence: _Influence, srid: int
) -> list[int]:
    """Return the sets of which a place has something that arrived within sight."""
    owners: dict[Sight, list[tuple[int, str]]] = {}
    for number, each in enumerate(neighborhoods):
        if each is not None and each.places:
            first = each.written_out()[0]
            sight = (sight_of(first.condition), frozenset(first.categories))
            owners.setdefault(sight, []).extend((number, place) for place in each.places)
    seeing: list[int] = []
    for sight, owned in owners.items():
        texts = sorted({place for _, place in owned})
        geometries, lacking = projected_places(texts, srid)
        there = [text for text in texts if text not in set(lacking)]
        seen = influence.near_places(*sight, geometries)
        near = {text for text, is_near in zip(there, seen.tolist(), strict=True) if is_near}
        seeing += [number for number, place in owned if place in near]
    return seeing


def _with_references(
    neighborhoods: Sequence[Neighborhood | None], known: MemberRows
) -> tuple[Int32s, Int32s, Int64s]:
    """Return the members with the references in front, as members of stage 0."""
    counts = [0 if each is None else len(each.refs) for each in neighborhoods]
    refs = [ref for each in neighborhoods if each is not None for ref in each.refs]
    owners = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return (
        np.concatenate([owners, known.sets]),
        np.concatenate([np.zeros(len(refs), np.int32), known.stages]),
        np.concatenate([np.array(refs, np.int64), known.peids]),
    )


def _watched_stages(neighborhoods: Sequence[Neighborhood | None]) -> dict[Sight, Bools]:
    """Return by sight which stages of which sets are references of a stage that sees so far."""
    written = [() if each is None else each.written_out() for each in neighborhoods]
    longest = max(map(len, written), default=0)
    patterns = {frozenset(stage.categories) for stages in written for stage in stages}
    watched: dict[Sight, Bools] = {}
    for number, stages in enumerate(written):
        for stage in stages:
            categories = frozenset(stage.categories)
            if len(patterns) > MOST_PATTERNS:
                categories = EVERYTHING
            sight = (sight_of(stage.condition), categories)
            table = watched.get(sight)
            if table is None:
                table = watched[sight] = np.zeros((len(written), longest + 1), np.bool_)
            table[number, list(stage.ref_stages)] = True
    return watched


def sight_of(condition: Condition) -> float:
    """Return how far a stage sees, up to a power of two: many distances become some twenty."""
    if not _near_only(condition):
        return ANYWHERE
    metres = _reach(condition)
    if metres == 0:
        return 0.0
    # More than needed by a thousandth at least: boxes are grown in floating point numbers.
    return float(2.0 ** math.ceil(math.log2(metres * 1.001)))


class _Influence:
    """Which entities of the new version have a touched one within sight."""

    def __init__(self, changes: WorldChanges, new: EntityTable) -> None:
        self._new = new
        self._masks = CategoryMasks(new)
        self._arrived, _ = new.positions_of(changes.arrived())
        self._boxes = shapely.bounds(new.geometries[self._arrived])
        self._tree = shapely.STRtree(new.geometries)
        self._everywhere = np.ones(len(new), np.bool_)

    def of(self, metres: float, patterns: frozenset[str]) -> Bools | None:
        """Return a mask of the new version; None when nothing of these categories arrived."""
        fitting = self._masks.of(tuple(patterns))[self._arrived]
        if not fitting.any():
            return None
        if metres == ANYWHERE:
            return self._everywhere
        near = np.zeros(len(self._new), np.bool_)
        near[self._tree.query(_grown(self._boxes[fitting], metres))[1]] = True
        return near

    def near_places(self, metres: float, patterns: frozenset[str], places: Geometries) -> Bools:
        """Return for each place whether something of these categories arrived near it."""
        fitting = self._masks.of(tuple(patterns))[self._arrived]
        if metres == ANYWHERE:
            return np.full(len(places), bool(fitting.any()))
        return seeing(tree_of_boxes(self._boxes[fitting]), metres, shapely.bounds(places))


def tree_of_boxes(boxes: NDArray[np.float64]) -> shapely.STRtree:
    """Return the boxes of what arrived, for ``seeing``."""
    return shapely.STRtree(_grown(boxes, 0.0))


def seeing(arrived: shapely.STRtree, metres: float, boxes: NDArray[np.float64]) -> Bools:
    """Return for each of the boxes whether something arrived within so many metres of it."""
    near = np.zeros(len(boxes), np.bool_)
    around = _grown(boxes, metres)
    for start in range(0, len(around) if len(arrived) else 0, PLACES_AT_ONCE):
        found, _ = arrived.query(around[start : start + PLACES_AT_ONCE])
        near[start + found] = True
    return near


def _grown(boxes: NDArray[np.float64], metres: float) -> Geometries:
    """Return the boxes as areas, with so many metres around them."""
    west, south, east, north = boxes.T
    grown: Geometries = np.asarray(
        shapely.box(west - metres, south - metres, east + metres, north + metres)
    )
    return grown
