"""The named relations as DE-9IM masks and as sets of matrices, and conditions on far pairs.

A matrix has nine cells, row by row: interior, boundary and exterior of the reference,
each against interior, boundary and exterior of the entity.

A far pair is disjoint, and further apart than all distances that the condition names. Its truth
depends on the two shapes alone (``Relate`` may test the cells of the exteriors). The truth for all
pairs of shapes is one integer with a bit for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import reduce
from typing import Final

from schemas.language.conditions import Condition, Leaf, Relate, Topological, fold


class Shape(Enum):
    """The dimensions of a geometry's interior and boundary, which bound its matrices.

    Closed lines (and multi-lines in which an even number of ends meet at every end) have no
    boundary, so they are a shape of their own. ``F`` means "none".
    """

    POINT = "0F"
    CLOSED_LINE = "1F"
    LINE = "10"
    AREA = "21"

    @property
    def dimension(self) -> str:
        """Return the dimension of the interior: ``0``, ``1`` or ``2``."""
        return self.value[0]

    @property
    def boundary(self) -> str:
        """Return the dimension of the boundary; ``F`` if there is none."""
        return self.value[1]


SHAPES: Final = tuple(Shape)
SHAPE_COUNT: Final = len(SHAPES)

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

# Relations with the same masks for every pair of shapes: the matrix fits one of them.
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
    """Return the masks of a named relation for this pair of shapes; without masks it never holds.

    Only Crosses and Overlaps depend on dimensions: OGC Simple Features defines them for some
    pairs of dimensions, and they are false for the others.
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

    The truth of a relation on a far pair so depends on the shapes: ``Relate(FF0******)`` holds for
    a far pair exactly if the reference is a point.
    """
    return f"FF{reference.dimension}FF{reference.boundary}{entity.dimension}{entity.boundary}2"


class MatrixSet:
    """Matrices with their pairs of shapes in a fixed order; a subset is an integer of bits."""

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
    """Return the members that each symbol of a mask accepts in this cell."""
    exact = {symbol: _bits(cell == symbol for cell in column) for symbol in "F012"}
    return exact | {"T": everything ^ exact["F"], "*": everything}


def _bits(flags: Iterable[bool]) -> int:
    return sum(flag << place for place, flag in enumerate(flags))


SHAPE_PAIRS: Final = tuple((reference, entity) for reference in Shape for entity in Shape)
_FAR: Final = MatrixSet([(*pair, disjoint_matrix(*pair)) for pair in SHAPE_PAIRS])


def always_false_when_far(condition: Condition) -> bool:
    """Return whether no far pair can satisfy the condition: then an index finds all candidates."""
    return far_bits(condition) == 0


def far_bits(condition: Condition) -> int:
    """Return the truth on far pairs, with a bit for each of SHAPE_PAIRS, the first one lowest."""
    return fold(condition, leaf_far_bits, _FAR.complement, int.__and__, int.__or__)


def leaf_far_bits(leaf: Leaf) -> int:
    """Return the truth of one relation on far pairs, in the bits of ``far_bits``."""
    match leaf:
        case Topological(short):
            return _FAR.named(short)
        case Relate(mask):
            return _FAR.fitting(mask)
        case _:  # a far pair is further apart than every distance
            return 0
