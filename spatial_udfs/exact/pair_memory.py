"""The memory of pairs: for each reference seen so far, all entities whose box meets its box.

A row holds all of them, whatever the stage that asked first, and the kind of each pair once it
has been needed. So a row serves every later stage and subscription. Six bytes a pair.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spatial_udfs.entity_table import Bools, Int64s, Positions
from spatial_udfs.topology.pair_kinds import Kinds

UNKNOWN: Final = np.uint16(0xFFFF)
_FIRST_ROOM: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs with their kinds, UNKNOWN where none was needed yet.

    ``places`` and ``memory`` tell where they are remembered, if they are.
    """

    references: Positions
    entities: Positions
    kinds: Kinds
    places: Int64s | None = None
    memory: PairMemory | None = None

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.entities)

    def where(self, chosen: Bools) -> Pairs:
        """Return some of the pairs."""
        return self.at(np.flatnonzero(chosen))

    def at(self, chosen: Int64s) -> Pairs:
        """Return the pairs at these places of the arrays."""
        return Pairs(
            self.references[chosen],
            self.entities[chosen],
            self.kinds[chosen],
            None if self.places is None else self.places[chosen],
            self.memory,
        )

    def remember(self, chosen: Int64s, kinds: Kinds) -> None:
        """Set the kinds of some of the pairs, here and in the memory that they came from."""
        self.kinds[chosen] = kinds
        if self.memory is not None and self.places is not None:
            self.memory.set_kinds(self.places[chosen], kinds)


class PairMemory:
    """Rows by reference, in memory that grows up to a bound. Safe to share between threads."""

    def __init__(self, entities: int, max_pairs: int) -> None:
        """Start without rows; ``max_pairs`` bounds all of them together."""
        self._max_pairs = max_pairs
        # Where a row starts, counted from 1: zeros cost nothing until a row is there.
        self._starts = np.zeros(entities, np.int64)
        self._lengths = np.zeros(entities, np.int32)
        self._entities: Positions = np.empty(min(_FIRST_ROOM, max_pairs), np.int32)
        self._kinds: Kinds = np.empty(len(self._entities), np.uint16)
        self._writing = threading.Lock()
        self.pairs = 0
        self.rows = 0

    def known(self, references: Positions) -> Bools:
        """Return which of the references have a row here."""
        return self._starts[references] > 0

    def lengths(self, references: Positions) -> NDArray[np.int32]:
        """Return the lengths of rows that are known."""
        return self._lengths[references]

    def add(self, references: Positions, pairs: Pairs) -> Pairs | None:
        """Keep the rows of these references, pairs in the same order; None if out of room."""
        with self._writing:
            end = self.pairs + len(pairs)
            if end > self._max_pairs:
                return None
            if self.known(references).any():
                # Another thread has added some of them first: its rows stay.
                return pairs
            if end > len(self._entities):
                self._grow(end)
            places = np.arange(self.pairs, end)
            self._entities[self.pairs : end] = pairs.entities
            self._kinds[self.pairs : end] = pairs.kinds
            lengths = _row_lengths(references, pairs)
            self._lengths[references] = lengths
            # Starts last: they tell readers that the rest is in place.
            self._starts[references] = 1 + self.pairs + np.cumsum(lengths) - lengths
            self.pairs = end
            self.rows += len(references)
        return Pairs(pairs.references, pairs.entities, pairs.kinds, places, self)

    def get(self, references: Positions) -> Pairs:
        """Return the rows of references that are known."""
        starts, lengths = self._starts[references] - 1, self._lengths[references]
        # After the starts: growing replaces these two by longer ones with the same beginning.
        entities, kinds = self._entities, self._kinds
        if len(references) == 1:
            places = np.arange(starts[0], starts[0] + lengths[0])
        else:
            ends = np.cumsum(lengths, dtype=np.int64)
            total = ends[-1] if len(ends) else 0
            places = np.repeat(starts - ends + lengths, lengths) + np.arange(total)
        owners = np.repeat(references, lengths)
        return Pairs(owners, entities[places], kinds[places], places, self)

    def set_kinds(self, places: Int64s, kinds: Kinds) -> None:
        """Remember the kinds of pairs that came from here."""
        with self._writing:
            self._kinds[places] = kinds

    def nbytes(self) -> int:
        """Return the memory taken."""
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


def _row_lengths(references: Positions, pairs: Pairs) -> NDArray[np.int32]:
    if len(references) == 1:
        return np.array([len(pairs)], np.int32)
    rows = np.searchsorted(references, pairs.references)
    return np.bincount(rows, minlength=len(references)).astype(np.int32)
