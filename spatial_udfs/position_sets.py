"""Sets of positions or keys as ascending arrays without repetition: small, quick to combine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np

from spatial_udfs.entity_table import Bools, Int64s, Positions

Numbers = TypeVar("Numbers", Positions, Int64s)

EMPTY: Final[Positions] = np.empty(0, np.int32)
EMPTY.flags.writeable = False


def is_in(positions: Positions | Int64s, members: Positions | Int64s) -> Bools:
    """Return for each position whether it is one of the members, which ascend."""
    if len(members) < 2:
        one: Bools = positions == (members[0] if len(members) else -1)
        return one
    places = np.searchsorted(members, positions)
    places[places == len(members)] = 0
    found: Bools = members[places] == positions
    return found


def spread_out(first: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return runs of places written out: for each place the number of its run, and itself.

    Run i begins at ``first[i]`` and has ``counts[i]`` places.
    """
    runs = np.repeat(np.arange(len(counts)), counts)
    return runs, np.arange(len(runs)) + np.repeat(first - np.cumsum(counts) + counts, counts)


def as_set(numbers: Numbers) -> Numbers:
    """Return the numbers in ascending order, each once; ``np.unique`` is slower."""
    ordered = np.sort(numbers)
    if len(ordered) < 2:
        return ordered
    first = np.empty(len(ordered), np.bool_)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def union(sets: Sequence[Positions]) -> Positions:
    """Return all members of the sets."""
    filled = [members for members in sets if len(members)]
    if len(filled) < 2:
        return filled[0] if filled else EMPTY
    return as_set(np.concatenate(filled))


def difference(members: Positions, removed: Positions) -> Positions:
    """Return the members that are not removed."""
    return members[~is_in(members, removed)] if len(removed) else members
