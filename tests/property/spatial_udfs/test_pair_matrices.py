"""Kinds computed in bulk, by short cuts and by transposition, against one matrix at a time."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import shapely
from hypothesis import HealthCheck, Phase, example, find, given, settings
from hypothesis import strategies as st

from schemas.language.conditions import Relate, Topological
from schemas.topology.relations import LONG_NAMES, SHAPES, Shape, disjoint_matrix
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.candidate_search import CandidateSearch
from spatial_udfs.exact.related_pairs import RelatedPairs
from spatial_udfs.resolution_limits import UNLIMITED
from spatial_udfs.topology import pair_matrices
from spatial_udfs.topology.pair_kinds import PairKinds
from spatial_udfs.topology.shapes import shape_codes
from tests.oracle.definition import Entity, holds_for_matrix, matrix_of, pair_matrix, turned
from tests.strategies.near_degenerate import near_degenerate_worlds, pair_world
from tests.strategies.worlds import table_of, worlds

RELATIONS = [Topological(short) for short in sorted(LONG_NAMES)]
CELL_MASKS = [
    Relate("*" * cell + character + "*" * (8 - cell)) for cell in range(9) for character in "TF012"
]


def wrong_pairs(world: EntityTable, mutual: bool = True) -> list[tuple[Any, Any]]:
    """Pairs whose matrix, told by all masks of one cell, is not the one shapely gives."""
    shapes = shape_codes(world)
    search = CandidateSearch(world.geometries)
    with patch.object(pair_matrices, "LARGE_AREA_COORDINATES", 4):
        related = RelatedPairs(world.geometries, search, shapes, 10**6)
    if mutual:
        assert related.warm_up(stop=lambda: False)
    everything = np.arange(len(world), dtype=np.int32)
    found = {}
    for pairs in related.meeting(everything):
        related.complete(pairs, UNLIMITED)
        keys = zip(pairs.references.tolist(), pairs.entities.tolist(), strict=True)
        found.update(zip(keys, pairs.kinds.tolist(), strict=True))
    wrong = []
    for i in everything.tolist():
        for j in everything.tolist():
            r, e = (Entity(place, world.geometries[place], ()) for place in (i, j))
            kind = found.get((i, j), int(shapes[i]) * 4 + int(shapes[j]))
            matrix = pair_matrix(r, e)
            dimensions = shapely.get_dimensions([r.geometry, e.geometry]).tolist()
            same = all(
                bool(related.kinds.truth(leaf, related.kinds.count())[kind])
                == holds_for_matrix(leaf, matrix, *dimensions)
                for leaf in (*RELATIONS, *CELL_MASKS)
            )
            if i != j and not same:
                wrong.append((r.geometry, e.geometry))
    return wrong


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds(max_entities=8), mutual=st.booleans())
def test_every_matrix_is_exact(world: EntityTable, mutual: bool) -> None:
    assert wrong_pairs(world, mutual) == []


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(world=pair_world(line_first=True), mutual=False)
@example(world=pair_world(line_first=False), mutual=False)
@example(world=pair_world(line_first=True), mutual=True)
@example(world=pair_world(line_first=False), mutual=True)
@given(world=near_degenerate_worlds(max_entities=10), mutual=st.booleans())
def test_rounding_leaves_one_matrix_for_a_pair(world: EntityTable, mutual: bool) -> None:
    assert wrong_pairs(world, mutual) == []


def test_the_strategy_draws_pairs_with_two_matrices() -> None:
    """What the test above is worth: GEOS alone gives such pairs a matrix for each order."""

    def has_two_matrices(world: EntityTable) -> bool:
        first, second = np.triu_indices(len(world), 1)
        forth = shapely.relate(world.geometries[first], world.geometries[second])
        back = shapely.relate(world.geometries[second], world.geometries[first])
        return any(one != turned(other) for one, other in zip(forth, back, strict=True))

    search = settings(
        max_examples=1_000, deadline=None, derandomize=True, database=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    find(near_degenerate_worlds(max_entities=10), has_two_matrices, settings=search)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds(max_entities=8))
def test_shapes_tell_the_matrix_of_disjoint_pairs(world: EntityTable) -> None:
    shapes = [SHAPES[code] for code in shape_codes(world)]
    for r, of_r in zip(world.geometries, shapes, strict=True):
        for e, of_e in zip(world.geometries, shapes, strict=True):
            if shapely.disjoint(r, e):
                assert matrix_of(r, e) == disjoint_matrix(of_r, of_e)


@pytest.mark.parametrize(
    ("owner", "name", "replacement"),
    [
        (PairKinds, "transposed", lambda _, kinds: kinds),
        (pair_matrices, "INNER_MATRICES", np.array(["102FF1FF2"] * len(Shape), dtype=object)),
    ],
)
def test_a_wrong_matrix_is_caught(owner: Any, name: str, replacement: Any) -> None:
    search = settings(
        max_examples=1_000,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with patch.object(owner, name, replacement):
        find(worlds(max_entities=8), wrong_pairs, settings=search)


def test_ends_shared_by_parts_hide_no_boundary_point_outside() -> None:
    """The smallest case of locationtech/jts issue 1175, seen from both sides."""
    route = shapely.from_wkt("MULTILINESTRING ((1 0, 0 0), (-5 0, 0 0))")
    stop = shapely.from_wkt("POINT (1 0)")
    world = table_of([(1, ("route",), route), (2, ("stop",), stop)])
    assert matrix_of(route, stop) == "FF10F0FF2"
    assert wrong_pairs(world) == []
