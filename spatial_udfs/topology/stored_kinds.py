"""Pair kinds: the DE-9IM matrix of a pair and the shapes of both, packed into one integer.

A world has millions of pairs and some hundred kinds, and all that a topological relation can
look at is in the kind. The code is the same in every world, so pairs can be taken over from
one version to the next.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from schemas.topology.far_pairs import SHAPE_PAIRS
from schemas.topology.relations import SHAPE_COUNT, Shape, disjoint_matrix

CELL_SYMBOLS: Final = "F012"

_CELL_BITS: Final = 2
_CELLS: Final = 9
_SHAPE_PAIR_BITS: Final = 4


def reference_shapes(kinds: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return the place in ``SHAPES`` of the reference of pairs of these kinds."""
    return ((kinds & (1 << _SHAPE_PAIR_BITS) - 1) // SHAPE_COUNT).astype(np.uint8)


def _shift(cell: int) -> int:
    """Return where a cell's bits are: the first cell is the highest digit, as it is written."""
    return _SHAPE_PAIR_BITS + _CELL_BITS * (_CELLS - 1 - cell)


def decoded(kind: int) -> tuple[Shape, Shape, str]:
    """Return the shape of the reference, the shape of the entity, and the matrix."""
    reference, entity = SHAPE_PAIRS[kind & (1 << _SHAPE_PAIR_BITS) - 1]
    cells = (kind >> _shift(cell) & (1 << _CELL_BITS) - 1 for cell in range(_CELLS))
    return reference, entity, "".join(CELL_SYMBOLS[cell] for cell in cells)


def encoded(reference: Shape, entity: Shape, matrix: str) -> int:
    """Return the kind of a matrix such as ``FF1F00102`` and the shapes of both ends."""
    return encoded_cells(matrix) | SHAPE_PAIRS.index((reference, entity))


def encoded_cells(matrix: str) -> int:
    """Return the bits of a matrix in a kind; the place in ``SHAPE_PAIRS`` is added to them."""
    return sum(CELL_SYMBOLS.index(symbol) << _shift(cell) for cell, symbol in enumerate(matrix))


DISJOINT_KINDS: Final = tuple(
    encoded(reference, entity, disjoint_matrix(reference, entity))
    for reference, entity in SHAPE_PAIRS
)
