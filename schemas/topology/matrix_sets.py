"""Which of many DE-9IM matrices a relation accepts, as one integer with a bit for each.

A subscriber may send thousands of masks, so a mask is not compared matrix by matrix: for each
cell and each character of a mask the accepted matrices are known beforehand, and a mask is the
intersection of nine such sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

from schemas.topology.relations import LONG_NAMES, Shape, masks_of


class MatrixSet:
    """Matrices with the shapes of their pairs, in a fixed order: the first has the lowest bit."""

    def __init__(self, members: Sequence[tuple[Shape, Shape, str]]) -> None:
        self.all: Final = (1 << len(members)) - 1
        self._by_cell: Final = [
            _by_symbol([matrix[cell] for _, _, matrix in members], self.all) for cell in range(9)
        ]
        shapes = [(reference, entity) for reference, entity, _ in members]
        self._by_name: Final = {
            short: reduce(
                int.__or__,
                (
                    self.fitting(mask) & _bits(shape_pair == pair for shape_pair in shapes)
                    for pair in dict.fromkeys(shapes)
                    for mask in masks_of(short, *pair)
                ),
                0,
            )
            for short in LONG_NAMES
        }

    def named(self, short: str) -> int:
        """The members for which the named relation holds."""
        return self._by_name[short]

    def fitting(self, mask: str) -> int:
        """The members that fit the mask."""
        cells = (self._by_cell[cell][wanted] for cell, wanted in enumerate(mask))
        return reduce(int.__and__, cells)

    def complement(self, bits: int) -> int:
        """The other members."""
        return self.all ^ bits


def _by_symbol(column: list[str], everything: int) -> dict[str, int]:
    """The accepted members for each symbol that a mask can have in this cell."""
    exact = {symbol: _bits(cell == symbol for cell in column) for symbol in "F012"}
    return exact | {"T": everything ^ exact["F"], "*": everything}


def _bits(flags: Iterable[bool]) -> int:
    return sum(flag << place for place, flag in enumerate(flags))
