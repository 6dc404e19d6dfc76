"""A world version in memory, as arrays: what the exact resolver works on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from schemas.language.categories import CategoryTree

Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Int32s: TypeAlias = NDArray[np.int32]
Int64s: TypeAlias = NDArray[np.int64]
# Positions in an EntityTable; 32 bits, because pairs of them are what fills memory.
Positions: TypeAlias = NDArray[np.int32]
Geometries: TypeAlias = NDArray[Any]

# One mask takes a byte for each entity.
REMEMBERED_MASKS: Final = 64


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
    # An Arrow array of strings; None where each key is the decimal peid (spatial_udfs/entity_keys).
    keys: Any = None

    def __len__(self) -> int:
        """Return the number of entities."""
        return len(self.peids)

    def categories_at(self, position: int) -> tuple[str, ...]:
        """Return the categories of one entity; engines work on the codes, people read these."""
        start, end = self.category_offsets[position : position + 2]
        return tuple(self.category_names[code] for code in self.category_codes[start:end])

    def positions_of(self, peids: Int64s) -> tuple[Positions, Int64s]:
        """Return positions of the peids that exist (ascending, unique), and those that do not."""
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


class CategoryMasks:
    """Masks by the set of patterns, remembered: few sets of patterns serve most stages."""

    def __init__(self, table: EntityTable) -> None:
        """Index the category tree of the world version."""
        self._table = table
        self._tree = CategoryTree(table.category_names)
        self._masks = lru_cache(maxsize=REMEMBERED_MASKS)(self._compute)

    def of(self, patterns: tuple[str, ...]) -> Bools:
        """Return the mask of the entities with a category that one of the patterns matches."""
        return self._masks(frozenset(patterns))

    def matches_category(self, pattern: str) -> bool:
        """Return whether the pattern matches a category of the world version."""
        return bool(self._tree.codes((pattern,)))

    def nbytes(self) -> int:
        """Return the memory that remembered masks take."""
        return self._masks.cache_info().currsize * len(self._table)

    def _compute(self, patterns: frozenset[str]) -> Bools:
        table = self._table
        wanted = np.zeros(len(table.category_names), np.bool_)
        wanted[list(self._tree.codes(patterns))] = True
        # Sums between offsets, because an entity has one or more categories.
        hits = np.concatenate([[0], np.cumsum(wanted[table.category_codes])])
        mask: Bools = np.diff(hits[table.category_offsets]) > 0
        mask.flags.writeable = False
        return mask
