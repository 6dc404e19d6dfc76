"""Pair kinds: the DE-9IM matrix of a pair and the shapes of both, packed into one integer.

A world has millions of pairs and some hundred kinds, and all that a topological relation can
look at is in the kind. The code is the same in every world, so pairs can be taken over from
one version to the next.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.far_pairs import SHAPE_PAIRS
from schemas.relations import Shape, disjoint_matrix

CELL_SYMBOLS: Final = "F012"
SHAPES: Final = tuple(Shape)
SHAPE_COUNT: Final = len(SHAPES)
AREA: Final = SHAPES.index(Shape.AREA)

_CELL_BITS: Final = 2
_CELLS: Final = 9
_SHAPE_PAIR_BITS: Final = 4
_TRANSPOSED: Final = (0, 3, 6, 1, 4, 7, 2, 5, 8)


def shape_pair(reference: Column, entity: Column) -> Column:
    """The place of two shapes in ``SHAPE_PAIRS``."""
    return reference * SHAPE_COUNT + entity


def pair_kind(matrix: Column, pair: Column) -> Column:
    """The kind of a matrix such as ``FF1F00102`` and a pair of shapes."""
    digits = F.translate(matrix, CELL_SYMBOLS, "0123")
    cells = F.conv(digits, 1 << _CELL_BITS, 10).cast("int")
    return F.shiftleft(cells, _SHAPE_PAIR_BITS).bitwiseOR(pair).cast("int")


def shape_pair_of(kind: Column) -> Column:
    """The place in ``SHAPE_PAIRS`` of the shapes of a kind."""
    return kind.bitwiseAND((1 << _SHAPE_PAIR_BITS) - 1)


def transposed(kind: Column) -> Column:
    """The kind of the same pair, seen from the entity."""
    result = shape_pair(
        shape_pair_of(kind).bitwiseAND(SHAPE_COUNT - 1),
        F.shiftright(shape_pair_of(kind), _SHAPE_PAIR_BITS // 2),
    )
    for cell, turned in enumerate(_TRANSPOSED):
        value = F.shiftright(kind, _shift(cell)).bitwiseAND((1 << _CELL_BITS) - 1)
        result = result.bitwiseOR(F.shiftleft(value, _shift(turned)))
    return result.cast("int")


def _shift(cell: int) -> int:
    """Where a cell's bits are: the first cell is the highest digit, as it is written."""
    return _SHAPE_PAIR_BITS + _CELL_BITS * (_CELLS - 1 - cell)


def decoded(kind: int) -> tuple[Shape, Shape, str]:
    """Shape of the reference, shape of the entity, and the matrix."""
    reference, entity = SHAPE_PAIRS[kind & (1 << _SHAPE_PAIR_BITS) - 1]
    cells = (kind >> _shift(cell) & (1 << _CELL_BITS) - 1 for cell in range(_CELLS))
    return reference, entity, "".join(CELL_SYMBOLS[cell] for cell in cells)


def encoded(reference: Shape, entity: Shape, matrix: str) -> int:
    """The kind, for Python; ``pair_kind`` is the same for columns."""
    cells = sum(CELL_SYMBOLS.index(symbol) << _shift(cell) for cell, symbol in enumerate(matrix))
    return cells | SHAPE_PAIRS.index((reference, entity))


DISJOINT_KINDS: Final = tuple(
    encoded(reference, entity, disjoint_matrix(reference, entity))
    for reference, entity in SHAPE_PAIRS
)
