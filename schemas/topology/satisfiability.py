"""Decides whether any pair of shapes, at any distance, can satisfy a condition.

A condition depends on the pair's two shapes, its DE-9IM matrix, and the side of each named distance
on which the pair lies. There are finitely many such situations, so a condition is the set of
situations in which it holds, and AND, OR, NOT are set operations. A set is one integer with a bit
for each situation.

An intersecting pair has the distance 0, so its situation is the matrix. A disjoint pair has one
matrix for its shapes, and its distance lies in one of the intervals between the distances that
the condition names.

The matrices that a pair of shapes can have are derived from a few laws of the plane. The laws are
necessary, so the matrix of a real pair is never missing here. The tests show that they are
sufficient as well: each matrix belongs to a real pair, or to real pairs side by side. Parts of one
geometry may be disconnected and a line may run over itself, so the laws do not use the
connectedness of a geometry; they use that the plane itself is connected.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Final, NamedTuple

from schemas.language.conditions import (
    Condition,
    Leaf,
    Relate,
    Topological,
    WithinDistance,
    fold,
    leaves,
)
from schemas.topology.relations import SHAPE_PAIRS, MatrixSet, Shape, disjoint_matrix, leaf_far_bits

_NONE: Final = "F"
# In ascending order, so that the larger of two dimensions is further right.
_DIMENSIONS: Final = "F012"


class _Matrix(NamedTuple):
    """The cells by name: interior, boundary or exterior of the reference, then of the entity."""

    ii: str
    ib: str
    ie: str
    bi: str
    bb: str
    be: str
    ei: str
    eb: str
    ee: str


@cache
def feasible_matrices(reference: Shape, entity: Shape) -> tuple[str, ...]:
    """Return all matrices that a pair of these shapes can have, including the disjoint one."""
    return tuple(
        "".join(matrix)
        for matrix in _candidates(reference, entity)
        if _every_point_is_somewhere(matrix, reference, entity)
        and _boundaries_have_sides(matrix, reference, entity)
        and (reference is not Shape.AREA or entity is not Shape.AREA or _faces_connect(matrix))
    )


def _candidates(reference: Shape, entity: Shape) -> Iterator[_Matrix]:
    """Yield all combinations of the dimensions that each cell can have by itself.

    Exteriors and the interiors of areas are open sets: if they meet a line or an area, they meet a
    piece of its full dimension.
    """
    cells = (
        _meeting(reference.dimension, entity.dimension, Shape.AREA in (reference, entity)),
        _meeting(reference.dimension, entity.boundary, reference is Shape.AREA),
        (_NONE, reference.dimension),
        _meeting(reference.boundary, entity.dimension, entity is Shape.AREA),
        _meeting(reference.boundary, entity.boundary, one_is_open=False),
        (_NONE, reference.boundary),
        (_NONE, entity.dimension),
        (_NONE, entity.boundary),
        ("2",),  # geometry is bounded, so both exteriors share the rest of the plane
    )
    return (_Matrix(*choice) for choice in product(*(dict.fromkeys(cell) for cell in cells)))


def _meeting(one: str, other: str, one_is_open: bool) -> tuple[str, ...]:
    """Return the dimensions that two parts can have in common."""
    largest = min(_DIMENSIONS.index(one), _DIMENSIONS.index(other))
    if one_is_open:
        return (_NONE, _DIMENSIONS[largest])
    return tuple(_DIMENSIONS[: largest + 1])


def _every_point_is_somewhere(matrix: _Matrix, reference: Shape, entity: Shape) -> bool:
    """Return whether the parts of each geometry cover interior and boundary of the other."""
    m = matrix
    return (
        _largest(m.ii, m.ib, m.ie) == reference.dimension
        and _largest(m.bi, m.bb, m.be) == reference.boundary
        and _largest(m.ii, m.bi, m.ei) == entity.dimension
        and _largest(m.ib, m.bb, m.eb) == entity.boundary
    )


def _largest(*dimensions: str) -> str:
    return max(dimensions, key=_DIMENSIONS.index)


def _boundaries_have_sides(matrix: _Matrix, reference: Shape, entity: Shape) -> bool:
    """Return whether each open set that meets a boundary also meets the parts next to it.

    Next to the boundary of a line is its interior; next to that of an area are both its interior
    and its exterior.
    """
    m = matrix
    implications = [(m.be, m.ie), (m.eb, m.ei)]
    if reference is Shape.AREA:
        implications.append((m.ib, m.ii))
    if entity is Shape.AREA:
        implications.append((m.bi, m.ii))
    if reference is Shape.AREA and entity is Shape.AREA:
        implications += [(m.ib, m.ie), (m.bi, m.ei)]
    return all(there == _NONE or beside != _NONE for there, beside in implications)


def _faces_connect(matrix: _Matrix) -> bool:
    """Return whether each face of two areas can be reached from outside across borders.

    Two areas divide the plane into faces of four kinds. Crossing the border of one area changes
    the side of that area alone; crossing a common border changes the sides of both.
    """
    m = matrix
    faces = {kind for kind in ("ii", "ie", "ei", "ee") if getattr(m, kind) != _NONE}
    crossings = [
        ("ii", "ie", m.ib != _NONE),
        ("ei", "ee", m.eb != _NONE),
        ("ii", "ei", m.bi != _NONE),
        ("ie", "ee", m.be != _NONE),
        ("ii", "ee", m.bb == "1"),
        ("ie", "ei", m.bb == "1"),
    ]
    usable = [(one, other) for one, other, open_ in crossings if open_ and {one, other} <= faces]
    reached = {"ee"}
    for _ in faces:
        reached |= {face for pair in usable if reached & set(pair) for face in pair}
    return reached == faces


_INTERSECTING: Final = MatrixSet(
    [
        (reference, entity, matrix)
        for reference, entity in SHAPE_PAIRS
        for matrix in feasible_matrices(reference, entity)
        if matrix != disjoint_matrix(reference, entity)
    ]
)


def unsatisfiable(condition: Condition) -> bool:
    """Return whether the condition is false for every possible pair."""
    return not _holds_for_intersecting(condition) and not _holds_for_disjoint(condition)


def _holds_for_intersecting(condition: Condition) -> bool:
    situations = fold(condition, _intersecting, _INTERSECTING.complement, int.__and__, int.__or__)
    return situations != 0


def _intersecting(leaf: Leaf) -> int:
    match leaf:
        case Topological(short):
            return _INTERSECTING.named(short)
        case Relate(mask):
            return _INTERSECTING.fitting(mask)
        case WithinDistance():
            return _INTERSECTING.all


def _holds_for_disjoint(condition: Condition) -> bool:
    """Return whether a disjoint pair can satisfy the condition.

    There is one block of bits for each interval, nearest first, with a bit for each pair of shapes.
    """
    distances = sorted(
        {leaf.metres for leaf in leaves(condition) if isinstance(leaf, WithinDistance)} - {0.0}
    )
    width = len(SHAPE_PAIRS)
    intervals = len(distances) + 1
    everywhere = (1 << width * intervals) - 1
    # Multiplying by it repeats the bits of one block in all blocks.
    in_each = everywhere // ((1 << width) - 1)
    blocks = {metres: number for number, metres in enumerate(distances, start=1)}

    def situations(leaf: Leaf) -> int:
        if isinstance(leaf, WithinDistance):
            return (1 << width * blocks.get(leaf.metres, 0)) - 1
        return leaf_far_bits(leaf) * in_each

    return fold(condition, situations, everywhere.__xor__, int.__and__, int.__or__) != 0
