"""Which entities a stage's category patterns select, as one Boolean for each position."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from schemas.language.categories import CategoryTree
from spatial_udfs.entity_table import EntityTable

# One mask takes a byte for each entity.
REMEMBERED_MASKS: Final = 64


class CategoryMasks:
    """Masks by the set of patterns, remembered: few sets of patterns serve most stages."""

    def __init__(self, table: EntityTable) -> None:
        """Index the category tree of the world version."""
        self._table = table
        self._tree = CategoryTree(table.category_names)
        self._masks = lru_cache(maxsize=REMEMBERED_MASKS)(self._compute)

    def of(self, patterns: tuple[str, ...]) -> NDArray[np.bool_]:
        """The mask of the entities with a category that one of the patterns matches."""
        return self._masks(frozenset(patterns))

    def nbytes(self) -> int:
        """The memory that remembered masks take."""
        return self._masks.cache_info().currsize * len(self._table)

    def _compute(self, patterns: frozenset[str]) -> NDArray[np.bool_]:
        table = self._table
        wanted = np.zeros(len(table.category_names), np.bool_)
        wanted[list(self._tree.codes(patterns))] = True
        # Sums between offsets, because an entity has one or more categories.
        hits = np.concatenate([[0], np.cumsum(wanted[table.category_codes])])
        mask: NDArray[np.bool_] = np.diff(hits[table.category_offsets]) > 0
        mask.flags.writeable = False
        return mask
