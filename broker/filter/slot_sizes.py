"""How many members each slot has: four bytes a slot, where a dictionary takes ninety."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray


class SlotSizes:
    """Numbers by slot. Slots are small numbers that are given again, so an array fits."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = array("I")

    @classmethod
    def of(cls, counts: NDArray[np.uint32]) -> SlotSizes:
        """From the numbers by slot."""
        sizes = cls()
        sizes._counts = array("I", counts.tobytes())
        return sizes

    @property
    def highest(self) -> int:
        """No slot above this one ever had a member; -1 when none had."""
        return len(self._counts) - 1

    def add(self, slot: int, count: int) -> None:
        """So many more."""
        missing = slot + 1 - len(self._counts)
        if missing > 0:
            self._counts.frombytes(bytes(self._counts.itemsize * missing))
        self._counts[slot] += count

    def of_slot(self, slot: int) -> int:
        """Return the number of a slot."""
        return self._counts[slot] if slot < len(self._counts) else 0

    def take(self, slot: int) -> int:
        """The number of a slot, which has none from now on."""
        if slot >= len(self._counts):
            return 0
        count, self._counts[slot] = self._counts[slot], 0
        return count
