"""The peids of a world version in the broker's memory, to know at once whether an entity exists."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from spatial_udfs.entity_table import Int64s

# Peids that the resolver process sends at once: reading them costs the event loop milliseconds.
PEIDS_AT_ONCE: Final = 500_000


def peid_parts(peids: Int64s) -> Iterator[Int64s]:
    """Yield ascending peids in parts that may be sent at once."""
    for start in range(0, len(peids), PEIDS_AT_ONCE):
        yield peids[start : start + PEIDS_AT_ONCE]


class KnownPeids:
    """Ascending peids, as they came in parts: 8 bytes for each."""

    def __init__(self, parts: Sequence[Int64s]) -> None:
        self._parts = tuple(part for part in parts if len(part))
        self._firsts = [int(part[0]) for part in self._parts]

    def __contains__(self, peid: int) -> bool:
        """Return whether the world version has this entity."""
        place = bisect_right(self._firsts, peid) - 1
        if place < 0:
            return False
        part = self._parts[place]
        found = int(np.searchsorted(part, peid))
        return found < len(part) and int(part[found]) == peid

    def __len__(self) -> int:
        """Return the number of entities."""
        return sum(map(len, self._parts))
