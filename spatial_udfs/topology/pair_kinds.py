"""Kinds of pairs: everything about a pair that a topological relation can look at.

A kind is a number of 16 bits made of the DE-9IM matrix and the two shapes. A city has few
hundred kinds and millions of pairs, so a condition is evaluated once for each kind and then
looked up.

In memory matrices are numbered as they come. A stored kind has the matrix itself, packed into one
integer: it is the same in every world, so pairs can be taken over from one version to the next.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from schemas.language.conditions import Leaf, Relate, Topological, WithinDistance
from schemas.topology.relations import (
    SHAPE_COUNT,
    SHAPE_PAIRS,
    Shape,
    disjoint_matrix,
    leaf_far_bits,
    masks_of,
)
from spatial_udfs.entity_table import Bools
from spatial_udfs.topology.shapes import ShapeCodes

Kinds = NDArray[np.uint16]

PAIRS_OF_SHAPES: Final = len(SHAPE_PAIRS)
# Far more than the DE-9IM allows for points, lines and areas; it is what 16 bits leave.
MAX_MATRICES: Final = (1 << 16) // PAIRS_OF_SHAPES

_CELL_BITS: Final = {"F": 1, "0": 2, "1": 4, "2": 8}
_MASK_BITS: Final = {**_CELL_BITS, "T": 14, "*": 15}
_TRANSPOSED_CELLS: Final = (0, 3, 6, 1, 4, 7, 2, 5, 8)
_TURNED_PAIRS: Final = np.array(
    [SHAPE_PAIRS.index((entity, reference)) for reference, entity in SHAPE_PAIRS], np.uint16
)


def shape_pairs(references: ShapeCodes, entities: ShapeCodes) -> NDArray[np.uint8]:
    """Return the place of each pair of shapes in SHAPE_PAIRS."""
    return references * np.uint8(SHAPE_COUNT) + entities


class PairKinds:
    """Numbers the matrices as they turn up. Number 0 is "disjoint", whatever the shapes.

    One thread at a time may add matrices; any number may look up at the same time.
    """

    def __init__(self) -> None:
        """Start with the disjoint matrix alone."""
        self._numbers: dict[str, int] = {}
        self._cells = np.zeros((1, 9), np.uint8)
        self._transposed = np.zeros(1, np.uint16)
        self._truth = lru_cache(maxsize=1024)(self._leaf_truth)

    def of(self, matrices: NDArray[Any], pairs: NDArray[np.uint8]) -> Kinds:
        """Return the kinds of pairs with these matrices and shapes."""
        texts, known = matrices.tolist(), self._numbers
        try:
            numbers = [known[text] for text in texts]
        except KeyError:
            numbers = [self._number(text) for text in texts]
        kinds: Kinds = np.array(numbers, np.uint16)
        kinds *= np.uint16(PAIRS_OF_SHAPES)
        kinds += pairs
        return kinds

    def transposed(self, kinds: Kinds) -> Kinds:
        """Return the kinds of the same pairs seen from the entity."""
        pair = kinds % np.uint16(PAIRS_OF_SHAPES)
        turned: Kinds = self._transposed[kinds // np.uint16(PAIRS_OF_SHAPES)]
        turned *= np.uint16(PAIRS_OF_SHAPES)
        turned += _TURNED_PAIRS[pair]
        return turned

    def count(self) -> int:
        """Return how many matrices are known now."""
        return len(self._cells)

    def matrices(self) -> list[str]:
        """Return the matrices in the order of their numbers, from number 1 on."""
        by_number = {number: text for text, number in self._numbers.items() if number}
        return [by_number[number] for number in range(1, self.count())]

    def truth(self, leaf: Leaf, matrices: int) -> Bools:
        """Return for each kind with one of the first ``matrices`` whether the relation holds."""
        return self._truth(leaf, matrices)

    def _number(self, matrix: str) -> int:
        """Return the number of a matrix; its transposed matrix gets one at the same time."""
        if matrix in self._numbers:
            return self._numbers[matrix]
        if matrix[:2] == "FF" and matrix[3:5] == "FF":
            self._numbers[matrix] = 0
            return 0
        turned = "".join(matrix[cell] for cell in _TRANSPOSED_CELLS)
        both = [matrix] if turned == matrix else [matrix, turned]
        first = len(self._cells)
        if first + len(both) > MAX_MATRICES:
            raise AssertionError("more DE-9IM matrices than points, lines and areas can have")
        rows = np.array([[_CELL_BITS[cell] for cell in text] for text in both], np.uint8)
        back = np.arange(first, first + len(both), dtype=np.uint16)[::-1]
        self._transposed = np.concatenate([self._transposed, back])
        self._cells = np.concatenate([self._cells, rows])
        # Published last, so that a thread that reads a number finds its row in the tables.
        self._numbers.update({text: first + place for place, text in enumerate(both)})
        return first

    def _leaf_truth(self, leaf: Leaf, matrices: int) -> Bools:
        cells = self._cells[:matrices]
        table = np.zeros((matrices, PAIRS_OF_SHAPES), np.bool_)
        for place, masks in enumerate(_masks_by_shapes(leaf)):
            for mask in masks:
                table[:, place] |= _fitting(cells, mask)
        far = leaf_far_bits(leaf)
        table[0] = [far >> place & 1 for place in range(PAIRS_OF_SHAPES)]
        return table.ravel()


def _masks_by_shapes(leaf: Leaf) -> list[tuple[str, ...]]:
    match leaf:
        case Relate(mask):
            return [(mask,)] * PAIRS_OF_SHAPES
        case Topological(short):
            return [masks_of(short, reference, entity) for reference, entity in SHAPE_PAIRS]
        case WithinDistance():
            raise AssertionError("a distance is no property of a kind")


def _fitting(cells: NDArray[Any], mask: str) -> Bools:
    wanted = np.array([_MASK_BITS[character] for character in mask], np.uint8)
    fits: Bools = ((cells & wanted) != 0).all(axis=1)
    return fits


CELL_SYMBOLS: Final = "F012"

_BITS_OF_CELL: Final = 2
_CELLS: Final = 9
_SHAPE_PAIR_BITS: Final = 4


def reference_shapes(kinds: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return the place in ``SHAPES`` of the reference of pairs of these kinds."""
    return ((kinds & (1 << _SHAPE_PAIR_BITS) - 1) // SHAPE_COUNT).astype(np.uint8)


def _shift(cell: int) -> int:
    """Return where a cell's bits are: the first cell is the highest digit, as it is written."""
    return _SHAPE_PAIR_BITS + _BITS_OF_CELL * (_CELLS - 1 - cell)


def decoded(kind: int) -> tuple[Shape, Shape, str]:
    """Return the shape of the reference, the shape of the entity, and the matrix."""
    reference, entity = SHAPE_PAIRS[kind & (1 << _SHAPE_PAIR_BITS) - 1]
    cells = (kind >> _shift(cell) & (1 << _BITS_OF_CELL) - 1 for cell in range(_CELLS))
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
