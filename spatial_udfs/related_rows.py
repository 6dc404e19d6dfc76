"""The memory of related pairs: for each reference seen so far, all entities it intersects.

A row is complete (whatever the categories of the stage that asked for it), so it serves every
later stage and subscription. Six bytes a pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spatial_udfs.entity_table import Positions
from spatial_udfs.pair_kinds import Bools, Kinds

_FIRST_ROOM: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Rows:
    """Related pairs, reference by reference; entities ascend within each row."""

    references: Positions
    lengths: NDArray[np.int32]
    entities: Positions
    kinds: Kinds

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.entities)

    def pair_references(self) -> Positions:
        """The reference of each pair."""
        return np.repeat(self.references, self.lengths)


class RelatedRows:
    """Rows by reference. One thread at a time may add, any number may read meanwhile."""

    def __init__(self, entities: int, max_pairs: int) -> None:
        """Know nothing yet; take memory as it is needed, up to ``max_pairs``."""
        self._max_pairs = max_pairs
        self._starts = np.full(entities, -1, np.int64)
        self._lengths = np.zeros(entities, np.int32)
        self._entities: Positions = np.empty(min(_FIRST_ROOM, max_pairs), np.int32)
        self._kinds: Kinds = np.empty(len(self._entities), np.uint16)
        self.pairs = 0
        self.rows = 0

    def known(self, references: Positions) -> Bools:
        """Which of the references have a row here."""
        return self._starts[references] >= 0

    def room_for(self, pairs: int) -> bool:
        """Whether that many more pairs fit."""
        return self.pairs + pairs <= self._max_pairs

    def add(self, rows: Rows) -> None:
        """Keep rows that are not there yet and for which there is room."""
        end = self.pairs + len(rows)
        if end > len(self._entities):
            self._grow(end)
        self._entities[self.pairs : end] = rows.entities
        self._kinds[self.pairs : end] = rows.kinds
        self._lengths[rows.references] = rows.lengths
        # Starts last: they tell readers that the rest is in place.
        self._starts[rows.references] = self.pairs + np.cumsum(rows.lengths) - rows.lengths
        self.pairs = end
        self.rows += len(rows.references)

    def get(self, references: Positions) -> Rows:
        """The rows of references that are known."""
        starts = self._starts[references]
        lengths = self._lengths[references]
        # After the starts: growing replaces these two by longer ones with the same beginning.
        entities, kinds = self._entities, self._kinds
        if len(references) == 1:
            row = slice(starts[0], starts[0] + lengths[0])
            return Rows(references, lengths, entities[row], kinds[row])
        ends = np.cumsum(lengths, dtype=np.int64)
        total = int(ends[-1]) if len(ends) else 0
        places = np.repeat(starts - ends + lengths, lengths) + np.arange(total)
        return Rows(references, lengths, entities[places], kinds[places])

    def lengths(self, references: Positions) -> NDArray[np.int32]:
        """The lengths of rows that are known."""
        return self._lengths[references]

    def nbytes(self) -> int:
        """The memory taken."""
        arrays = (self._starts, self._lengths, self._entities, self._kinds)
        return sum(array.nbytes for array in arrays)

    def _grow(self, needed: int) -> None:
        room = min(max(needed, 2 * len(self._entities)), self._max_pairs)
        entities: Positions = np.empty(room, np.int32)
        kinds: Kinds = np.empty(room, np.uint16)
        entities[: self.pairs] = self._entities[: self.pairs]
        kinds[: self.pairs] = self._kinds[: self.pairs]
        self._kinds = kinds
        self._entities = entities
