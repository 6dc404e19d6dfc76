"""The laws behind the warnings, held against real geometry in both directions."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from numpy.typing import NDArray

from schemas.language.conditions import Condition, Leaf, Relate, Topological, WithinDistance, fold
from schemas.topology.relations import LONG_NAMES, Shape, disjoint_matrix, fits, masks_of
from schemas.topology.satisfiability import feasible_matrices, unsatisfiable
from tests.strategies.geometry_pairs import GeometryPairs, geometry_pairs
from tests.strategies.language import conditions

ALL_SHAPE_PAIRS = [(reference, entity) for reference in Shape for entity in Shape]
PREDICATES: dict[str, Any] = {
    "E": shapely.equals,
    "I": shapely.intersects,
    "D": shapely.disjoint,
    "T": shapely.touches,
    "C": shapely.contains,
    "W": shapely.within,
    "CV": shapely.covers,
    "CB": shapely.covered_by,
    "X": shapely.crosses,
    "O": shapely.overlaps,
    "B": lambda reference, entity: shapely.intersects(shapely.boundary(reference), entity),
}


@pytest.fixture(scope="module")
def seen() -> dict[tuple[Shape, Shape], set[str]]:
    """Matrices of the real pairs, by the shapes that they show."""
    pairs = geometry_pairs(seed=1, of_each_kind=130)
    matrices: dict[tuple[Shape, Shape], set[str]] = defaultdict(set)
    for reference, entity, matrix in zip(
        pairs.reference_shapes, pairs.entity_shapes, pairs.matrices, strict=True
    ):
        as_shown = (_shown(reference, matrix[3:6]), _shown(entity, matrix[1::3]))
        matrices[as_shown].add(matrix)
    return matrices


def _shown(shape: Shape, boundary: str) -> Shape:
    """GEOS 3.14 can lose the boundary of a multi-line of which some parts form a ring.

    Where it does, the matrix is that of a closed line, so no condition gains or loses a pair
    that another shape does not have as well.
    """
    return Shape.CLOSED_LINE if shape is Shape.LINE and boundary == "FFF" else shape


@pytest.mark.parametrize("shapes", ALL_SHAPE_PAIRS)
def test_every_real_matrix_is_feasible(
    shapes: tuple[Shape, Shape], seen: dict[tuple[Shape, Shape], set[str]]
) -> None:
    assert seen[shapes]
    assert seen[shapes] <= set(feasible_matrices(*shapes))


@pytest.mark.parametrize("shapes", ALL_SHAPE_PAIRS)
def test_every_feasible_matrix_is_real(
    shapes: tuple[Shape, Shape], seen: dict[tuple[Shape, Shape], set[str]]
) -> None:
    """Two real pairs side by side are a real pair, with the larger dimension in each cell."""
    real = set(seen[shapes])
    beside = _parts_to_put_beside(shapes, seen)
    while new := {_side_by_side(one, other) for one in real for other in beside | real} - real:
        real |= new
    assert real == set(feasible_matrices(*shapes))


def _parts_to_put_beside(
    shapes: tuple[Shape, Shape], seen: dict[tuple[Shape, Shape], set[str]]
) -> set[str]:
    """A line may have closed parts, and either geometry may have parts that meet nothing."""
    references, entities = (
        (shape, Shape.CLOSED_LINE) if shape is Shape.LINE else (shape,) for shape in shapes
    )
    parts = {matrix for r in references for e in entities for matrix in seen[r, e]}
    parts |= {f"FF{shape.dimension}FF{shape.boundary}FF2" for shape in references}
    return parts | {f"FFFFFF{shape.dimension}{shape.boundary}2" for shape in entities}


def _side_by_side(one: str, other: str) -> str:
    return "".join(max(cells, key="F012".index) for cells in zip(one, other, strict=True))


@pytest.mark.parametrize("short", LONG_NAMES)
def test_the_masks_say_what_the_named_predicates_of_geos_say(short: str) -> None:
    pairs = geometry_pairs(seed=2, of_each_kind=40)
    by_mask = [
        any(fits(matrix, mask) for mask in masks_of(short, reference, entity))
        for reference, entity, matrix in zip(
            pairs.reference_shapes, pairs.entity_shapes, pairs.matrices, strict=True
        )
    ]
    expected = PREDICATES[short](pairs.references, pairs.entities)
    assert 0 < expected.sum() < len(expected)
    np.testing.assert_array_equal(by_mask, expected)


@pytest.mark.parametrize("shapes", ALL_SHAPE_PAIRS)
def test_disjoint_pairs_of_the_same_shapes_have_one_matrix(
    shapes: tuple[Shape, Shape], seen: dict[tuple[Shape, Shape], set[str]]
) -> None:
    disjoint = {matrix for matrix in seen[shapes] if fits(matrix, "FF*FF****")}
    assert disjoint == {disjoint_matrix(*shapes)}


@settings(max_examples=200)
@given(conditions(max_leaves=4))
def test_what_holds_for_a_real_pair_is_never_called_impossible(condition: Condition) -> None:
    sample = geometry_pairs(seed=3, of_each_kind=12)
    assert unsatisfiable(condition) <= (not _holds(condition, sample).any())


def _holds(condition: Condition, pairs: GeometryPairs) -> NDArray[np.bool_]:
    def leaf_holds(leaf: Leaf) -> NDArray[np.bool_]:
        match leaf:
            case Topological(short):
                return PREDICATES[short](pairs.references, pairs.entities)  # type: ignore[no-any-return]
            case WithinDistance(metres):
                return shapely.dwithin(pairs.references, pairs.entities, metres)
            case Relate(mask):
                return shapely.relate_pattern(pairs.references, pairs.entities, mask)

    return fold(condition, leaf_holds, np.logical_not, np.logical_and, np.logical_or)
