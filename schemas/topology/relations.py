"""The relations of the contract as DE-9IM masks, and as sets of matrices.

A matrix has nine cells, row by row: interior, boundary and exterior of the reference,
each against interior, boundary and exterior of the entity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import reduce
from typing import Final


class Shape(Enum):
    """All that a geometry's kind contributes to a matrix: its dimension and its boundary's.

    Closed lines (and multi-lines of which every end meets an even number of times) have no
    boundary, so they are a shape of their own. ``F`` stands for "none".
    """

    POINT = "0F"
    CLOSED_LINE = "1F"
    LINE = "10"
    AREA = "21"

    @property
    def dimension(self) -> str:
        """The dimension of the interior: ``0``, ``1`` or ``2``."""
        return self.value[0]

    @property
    def boundary(self) -> str:
        """The dimension of the boundary, ``F`` when there is none."""
        return self.value[1]


LONG_NAMES: Final[Mapping[str, str]] = {
    "E": "Equals",
    "I": "Intersects",
    "D": "Disjoint",
    "T": "Touches",
    "C": "Contains",
    "W": "Within",
    "CV": "Covers",
    "CB": "CoveredBy",
    "X": "Crosses",
    "O": "Overlaps",
    "B": "Border",
}

# Relations that mean the same for every pair of shapes: the matrix fits one of the masks.
MASKS: Final[Mapping[str, tuple[str, ...]]] = {
    "E": ("T*F**FFF*",),
    "I": ("T********", "*T*******", "***T*****", "****T****"),
    "D": ("FF*FF****",),
    "T": ("FT*******", "F**T*****", "F***T****"),
    "C": ("T*****FF*",),
    "W": ("T*F**F***",),
    "CV": ("T*****FF*", "*T****FF*", "***T**FF*", "****T*FF*"),
    "CB": ("T*F**F***", "*TF**F***", "**FT*F***", "**F*TF***"),
    "B": ("***T*****", "****T****"),
}


def masks_of(short: str, reference: Shape, entity: Shape) -> tuple[str, ...]:
    """Return the masks of a named relation for this pair of shapes; none means that it never holds.

    Only Crosses and Overlaps look at dimensions: OGC Simple Features defines them for some
    pairs of dimensions and leaves them false for the others.
    """
    if short == "X":
        return _crosses(reference.dimension, entity.dimension)
    if short == "O":
        return _overlaps(reference.dimension, entity.dimension)
    return MASKS[short]


def _crosses(reference: str, entity: str) -> tuple[str, ...]:
    if reference < entity:
        return ("T*T******",)
    if reference > entity:
        return ("T*****T**",)
    return ("0********",) if reference == "1" else ()


def _overlaps(reference: str, entity: str) -> tuple[str, ...]:
    if reference != entity:
        return ()
    return ("1*T***T**",) if reference == "1" else ("T*T***T**",)


def fits(matrix: str, mask: str) -> bool:
    """Return whether a matrix (``F012``) fits a mask (``TF*012``)."""
    return all(
        wanted in ("*", cell) or (wanted == "T" and cell != "F")
        for cell, wanted in zip(matrix, mask, strict=True)
    )


def disjoint_matrix(reference: Shape, entity: Shape) -> str:
    """Return the one matrix that a disjoint pair of these shapes can have.

    It depends on the shapes, so a far pair's truth does too: ``Relate(FF0******)`` holds for
    a far pair exactly when the reference is a point.
    """
    return f"FF{reference.dimension}FF{reference.boundary}{entity.dimension}{entity.boundary}2"


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
        """Return the members for which the named relation holds."""
        return self._by_name[short]

    def fitting(self, mask: str) -> int:
        """Return the members that fit the mask."""
        cells = (self._by_cell[cell][wanted] for cell, wanted in enumerate(mask))
        return reduce(int.__and__, cells)

    def complement(self, bits: int) -> int:
        """Return the other members."""
        return self.all ^ bits


def _by_symbol(column: list[str], everything: int) -> dict[str, int]:
    """Return the accepted members for each symbol that a mask can have in this cell."""
    exact = {symbol: _bits(cell == symbol for cell in column) for symbol in "F012"}
    return exact | {"T": everything ^ exact["F"], "*": everything}


def _bits(flags: Iterable[bool]) -> int:
    return sum(flag << place for place, flag in enumerate(flags))
