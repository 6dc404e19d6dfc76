"""A world version in memory, as arrays: what the exact resolver works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Int64s: TypeAlias = NDArray[np.int64]
# Positions in an EntityTable; 32 bits, because pairs of them are what fills memory.
Positions: TypeAlias = NDArray[np.int32]
Geometries: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class EntityTable:
    """Column by column, sorted by peid, so that a position is found by bisection.

    The categories of the entity at position i are
    ``category_names[code] for code in category_codes[category_offsets[i]:category_offsets[i+1]]``.
    """

    version: int
    srid: int
    peids: Int64s
    geometries: Geometries
    names: NDArray[Any]
    category_names: tuple[str, ...]
    category_offsets: Int64s
    category_codes: Positions

    def __len__(self) -> int:
        """The number of entities."""
        return len(self.peids)

    def categories_at(self, position: int) -> tuple[str, ...]:
        """The categories of one entity; engines work on the codes, people read these."""
        start, end = self.category_offsets[position : position + 2]
        return tuple(self.category_names[code] for code in self.category_codes[start:end])

    def positions_of(self, peids: Int64s) -> tuple[Positions, Int64s]:
        """Positions of the peids that exist (ascending, unique), and those that do not."""
        if len(peids) == 1:
            # Most neighborhoods have one reference, and the general way costs as much as a stage.
            place = int(np.searchsorted(self.peids, peids[0]))
            if place < len(self.peids) and self.peids[place] == peids[0]:
                return np.array([place], np.int32), peids[:0]
            return np.empty(0, np.int32), peids
        wanted = np.unique(peids)
        found = np.searchsorted(self.peids, wanted)
        found[found == len(self.peids)] = 0
        exists = self.peids[found] == wanted if len(self.peids) else np.zeros(len(wanted), bool)
        return found[exists].astype(np.int32), wanted[~exists]
