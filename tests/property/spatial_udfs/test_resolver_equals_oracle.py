"""The exact resolver gives what the definition gives, on any small world and neighborhood."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import shapely
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from schemas.errors import NoReferenceError
from schemas.language.condition_parser import parse_condition
from schemas.language.conditions import Topological
from schemas.language.neighborhood import Neighborhood, Stage
from schemas.topology.relations import SHAPE_COUNT
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact import candidate_search, exact_resolver, place_members, stage_members
from spatial_udfs.exact.candidate_search import CandidateSearch, PairDistances
from spatial_udfs.exact.exact_resolver import ExactResolver, Resolution
from spatial_udfs.exact.pair_memory import Pairs
from spatial_udfs.exact.place_members import PlaceMembers
from spatial_udfs.exact.stage_members import FarCount, OpenEntities
from spatial_udfs.position_sets import EMPTY
from spatial_udfs.resolution_limits import ResolutionLimits
from spatial_udfs.topology import pair_matrices
from spatial_udfs.topology.condition_verdicts import Verdict
from tests.oracle.definition import entities_of, resolve_by_definition
from tests.strategies.near_degenerate import near_degenerate_worlds, pair_world
from tests.strategies.neighborhoods import neighborhoods, worlds_in_degrees
from tests.strategies.worlds import table_of, worlds


@dataclass(frozen=True)
class Tuning:
    """Sizes that must change nothing but speed; small ones reach every path in small worlds."""

    large_area: int
    step: int
    max_pairs: int
    warm: bool


TUNINGS = st.builds(
    Tuning,
    large_area=st.sampled_from((4, 6, 12)),
    step=st.sampled_from((1, 3, 512)),
    max_pairs=st.sampled_from((0, 7, 1_000_000)),
    warm=st.booleans(),
)


def tuned(stack: ExitStack, tuning: Tuning, world: EntityTable) -> ExactResolver:
    """A resolver with these sizes, for as long as the stack is open."""
    for module, name, value in (
        (pair_matrices, "LARGE_AREA_COORDINATES", tuning.large_area),
        (pair_matrices, "MAX_PREPARED_COORDINATES", 10 * tuning.step),
        (candidate_search, "REFERENCES_PER_STEP", tuning.step),
        (candidate_search, "PAIRS_PER_STEP", tuning.step),
        (stage_members, "FEW_REFERENCES", tuning.step),
    ):
        stack.enter_context(patch.object(module, name, value))
    resolver = ExactResolver(world, max_pairs=tuning.max_pairs)
    if tuning.warm:
        resolver.warm_up()
    return resolver


def assert_same(resolution: Resolution, world: EntityTable, neighborhood: Neighborhood) -> None:
    expected, missing = resolve_by_definition(entities_of(world), neighborhood, world.srid)
    found = [set(members.tolist()) for members in resolution.stages]
    assert found == expected
    assert set(resolution.missing_refs) == missing
    assert resolution.visible == neighborhood.visible
    for members in resolution.stages:
        assert (np.diff(members) > 0).all()


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds(), tuning=TUNINGS, data=st.data())
def test_resolver_equals_definition(
    world: EntityTable, tuning: Tuning, data: st.DataObject
) -> None:
    """Several neighborhoods on one resolver: what it remembers must not matter."""
    with ExitStack() as stack:
        resolver = tuned(stack, tuning, world)
        for _ in range(2):
            neighborhood = data.draw(neighborhoods(world))
            assert_same(resolver.resolve(neighborhood), world, neighborhood)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds_in_degrees(), tuning=TUNINGS, data=st.data())
def test_resolver_equals_definition_with_places(
    world: EntityTable, tuning: Tuning, data: st.DataObject
) -> None:
    with ExitStack() as stack:
        resolver = tuned(stack, tuning, world)
        for _ in range(2):
            neighborhood = data.draw(neighborhoods(world))
            try:
                assert_same(resolver.resolve(neighborhood), world, neighborhood)
            except NoReferenceError:
                assert not neighborhood.places


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(world=near_degenerate_worlds(), tuning=TUNINGS, data=st.data())
def test_resolver_equals_definition_where_rounding_matters(
    world: EntityTable, tuning: Tuning, data: st.DataObject
) -> None:
    with ExitStack() as stack:
        resolver = tuned(stack, tuning, world)
        for _ in range(3):
            neighborhood = data.draw(neighborhoods(world, max_typed_stages=2))
            assert_same(resolver.resolve(neighborhood), world, neighborhood)


# Cells of which GEOS says one thing in one order and another thing in the other.
TWO_FACED = ("Relate(*0*******)", "Relate(*1*******)", "Relate(***0*****)", "Relate(***1*****)")


@pytest.mark.parametrize("text", TWO_FACED)
@pytest.mark.parametrize("line_first", [True, False])
@pytest.mark.parametrize("reference", [1, 2])
def test_the_lower_peid_comes_first(text: str, line_first: bool, reference: int) -> None:
    world = pair_world(line_first=line_first)
    neighborhood = Neighborhood((reference,), (Stage(("#",), parse_condition(text)),), (True,))
    assert_same(ExactResolver(world).resolve(neighborhood), world, neighborhood)


@pytest.mark.parametrize("text", ["DW0", "I AND DW0", "I AND NOT DW0", "NOT DW0"])
@pytest.mark.parametrize("reference", [1, 2])
def test_what_shares_a_point_has_no_distance(text: str, reference: int) -> None:
    """GEOS measures 1e-17 between these two, of which it also says that they share a point."""
    one = shapely.from_wkt("LINESTRING (0.7 0, 0.3 0.4)")
    other = shapely.from_wkt("LINESTRING (0.6 0.1, 0.2 0.5)")
    assert shapely.relate(one, other)[0] == "0"
    assert shapely.distance(one, other) > 0
    world = table_of([(1, ("road",), one), (2, ("road",), other)])
    neighborhood = Neighborhood((reference,), (Stage(("#",), parse_condition(text)),), (True,))
    members = ExactResolver(world).resolve(neighborhood).stages[0]
    assert len(members) == ("NOT" not in text)
    assert_same(ExactResolver(world).resolve(neighborhood), world, neighborhood)


@st.composite
def cases(draw: st.DrawFn) -> tuple[EntityTable, Neighborhood]:
    world = draw(worlds(min_entities=2))
    return world, draw(neighborhoods(world))


@st.composite
def place_cases(draw: st.DrawFn) -> tuple[EntityTable, Neighborhood]:
    world = draw(worlds_in_degrees())
    has_place = neighborhoods(world).filter(lambda drawn: bool(drawn.places))
    return world, draw(has_place)


def differs(case: tuple[EntityTable, Neighborhood]) -> bool:
    world, neighborhood = case
    with ExitStack() as stack:
        resolver = tuned(stack, Tuning(4, 3, 1_000_000, warm=False), world)
        try:
            assert_same(resolver.resolve(neighborhood), world, neighborhood)
        except AssertionError:
            return True
    return False


def _limit_left_out(self: PairDistances, pairs: Pairs, _: ResolutionLimits) -> Any:
    references, entities = self._geometries[pairs.references], self._geometries[pairs.entities]
    distances = shapely.distance(references, entities)
    return lambda limit: Verdict(distances < limit, distances >= limit)


WRONG = {
    "references are not excluded": (
        exact_resolver,
        "OpenEntities",
        lambda of_categories, _: OpenEntities(of_categories, EMPTY),
    ),
    "a repeated condition is taken for a repeated stage": (
        exact_resolver,
        "_repeats",
        lambda stage, earlier: stage.condition == earlier.condition,
    ),
    "near failing references are not counted": (
        FarCount,
        "add_candidates",
        lambda *_: None,
    ),
    "the limit of a distance is left out": (PairDistances, "exact", _limit_left_out),
    "far pairs count as if all were points": (
        exact_resolver,
        "shape_codes",
        lambda table: np.zeros(len(table), np.uint8),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_resolver_is_caught(wrong: str) -> None:
    """The negative control: each of these mistakes must show up as a counterexample."""
    owner, name, replacement = WRONG[wrong]
    search = settings(
        max_examples=3_000,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with patch.object(owner, name, replacement):
        find(cases(), differs, settings=search)


WRONG_WITH_PLACES = {
    "places are not asked": (PlaceMembers, "select", lambda *_: EMPTY),
    "an entity far from every place is left out": (
        place_members,
        "_held_by_shape",
        lambda *_: np.zeros(SHAPE_COUNT, np.bool_),
    ),
    "the reach around a place is left out": (
        CandidateSearch,
        "around",
        lambda self, geometry, _: self._tree.query(geometry).astype(np.int32),
    ),
}


@pytest.mark.parametrize("wrong", WRONG_WITH_PLACES)
def test_a_wrong_resolver_of_places_is_caught(wrong: str) -> None:
    owner, name, replacement = WRONG_WITH_PLACES[wrong]
    search = settings(
        max_examples=3_000,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with patch.object(owner, name, replacement):
        find(place_cases(), differs, settings=search)


@given(world=worlds())
@settings(max_examples=20, deadline=None)
def test_no_reference_is_an_error(world: EntityTable) -> None:
    absent = next(peid for peid in range(100) if peid not in world.peids)
    neighborhood = Neighborhood((absent,), (Stage(("#",), Topological("I")),), (True,))
    with pytest.raises(NoReferenceError, match=str(absent)):
        ExactResolver(world).resolve(neighborhood)
