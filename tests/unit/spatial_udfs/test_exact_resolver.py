"""What callers of the exact resolver lean on: limits, bounded memory, threads, own errors."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import numpy as np
import pytest
from shapely import GeometryCollection, LineString, MultiLineString, Point, Polygon

from schemas.errors import DeadlineError, TooManyMembersError, WorldError
from schemas.language.condition_parser import parse_condition
from schemas.language.conditions import Leaf
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import parse_notation
from schemas.topology.relations import SHAPES, Shape
from spatial_udfs.entity_table import Bools, EntityTable, Positions
from spatial_udfs.exact import candidate_search
from spatial_udfs.exact.exact_resolver import ExactResolver
from spatial_udfs.exact.pair_memory import PairMemory, Pairs
from spatial_udfs.resolution_limits import UNLIMITED, ResolutionLimits
from spatial_udfs.topology.condition_verdicts import truth_by_kind
from spatial_udfs.topology.pair_kinds import PairKinds
from spatial_udfs.topology.shapes import shape_codes
from testing.synthetic_city import synthetic_city
from tests.strategies.worlds import table_of


@pytest.fixture(scope="module")
def city() -> EntityTable:
    return synthetic_city(3_000, seed=1)


def peids_of(city: EntityTable, category: str) -> list[int]:
    code = city.category_names.index(category)
    owners = np.repeat(np.arange(len(city)), np.diff(city.category_offsets))
    found: list[int] = city.peids[owners[city.category_codes == code]].tolist()
    return found


def hops_of(city: EntityTable) -> list[Neighborhood]:
    """A zone, three hops around it, parking there, and all but the near shops."""
    return [
        parse_notation(
            f"({{{zone}}},{{road/#}},C) • 3(Prev,{{road/#}},T)"
            " • ({2,3,4},{transport/parking},T OR DW20) • (Anc,{shop/#},NOT DW150)"
        )
        for zone in peids_of(city, "zone/quarter")
    ]


def stages_of(resolver: ExactResolver, neighborhoods: list[Neighborhood]) -> list[list[list[int]]]:
    return [
        [members.tolist() for members in resolver.resolve(neighborhood).stages]
        for neighborhood in neighborhoods
    ]


def test_a_deadline_that_has_passed_stops_the_work(city: EntityTable) -> None:
    resolver = ExactResolver(city)
    with pytest.raises(DeadlineError, match="time allowed"):
        resolver.resolve(hops_of(city)[0], ResolutionLimits.within(0))
    assert resolver.resolve(hops_of(city)[0], ResolutionLimits.within(600)).peids().size


def test_waiting_for_another_computation_counts(city: EntityTable) -> None:
    resolver = ExactResolver(city)
    busy = resolver._stages.related._turns
    with busy.turn(UNLIMITED), pytest.raises(DeadlineError, match="busy"):
        resolver.resolve(hops_of(city)[0], ResolutionLimits.within(0.01))
    assert resolver.resolve(hops_of(city)[0], ResolutionLimits.within(600)).peids().size


def test_members_of_hidden_stages_count_too(city: EntityTable) -> None:
    neighborhood = parse_notation(
        f"({{{peids_of(city, 'zone/region')[0]}}},{{#}},C) • (Prev,{{zone/region}},W) visible 01"
    )
    resolver = ExactResolver(city)
    members = sum(map(len, resolver.resolve(neighborhood).stages))
    assert members > 500
    resolver.resolve(neighborhood, ResolutionLimits(max_members=members))
    with pytest.raises(TooManyMembersError, match=f"the {members - 1} allowed"):
        resolver.resolve(neighborhood, ResolutionLimits(max_members=members - 1))


def test_memory_of_pairs_is_bounded_and_changes_no_answer(city: EntityTable) -> None:
    wide, narrow = ExactResolver(city), ExactResolver(city, max_pairs=400)
    assert stages_of(wide, hops_of(city)) == stages_of(narrow, hops_of(city))
    assert wide.memory().pairs > 400 >= narrow.memory().pairs
    assert wide.memory().pair_bytes > narrow.memory().pair_bytes


def test_warm_up_knows_every_pair_and_changes_no_answer(city: EntityTable) -> None:
    cold, warm = ExactResolver(city), ExactResolver(city)
    assert warm.warm_up()
    assert warm.memory().rows == len(city)
    assert stages_of(cold, hops_of(city)) == stages_of(warm, hops_of(city))


def test_warm_up_stops_when_told_and_when_out_of_room(city: EntityTable) -> None:
    resolver = ExactResolver(city)
    assert not resolver.warm_up(stop=lambda: resolver.memory().rows > 0)
    assert 0 < resolver.memory().rows < len(city)
    narrow = ExactResolver(city, max_pairs=5_000)
    assert not narrow.warm_up()
    assert narrow.memory().pairs <= 5_000


def test_warm_up_pauses_while_a_request_waits(city: EntityTable) -> None:
    resolver = ExactResolver(city)
    turns = resolver._stages.related._turns
    with ThreadPoolExecutor(1) as pool:
        with turns.turn(UNLIMITED):
            waits = pool.submit(turns._take, 600)
            while not turns.waiting:
                time.sleep(0.001)
            asked = iter([False] * 5)
            assert not resolver.warm_up(stop=lambda: next(asked, True))
            assert resolver.memory().rows == 0
        assert waits.result()
        turns._give()
    assert resolver.warm_up()


def test_threads_agree_with_one_thread(city: EntityTable) -> None:
    neighborhoods = hops_of(city)
    expected = stages_of(ExactResolver(city), neighborhoods)
    shared = ExactResolver(city, max_pairs=20_000)
    with patch.object(candidate_search, "REFERENCES_PER_STEP", 16), ThreadPoolExecutor(8) as pool:
        warming = pool.submit(shared.warm_up)
        runs = [pool.submit(stages_of, shared, neighborhoods) for _ in range(12)]
        assert all(run.result() == expected for run in runs)
        warming.result()


def test_warm_up_bears_rows_added_by_another_thread(city: EntityTable) -> None:
    """Between finding out what is missing and adding it, somebody adds a part of it."""
    resolver = ExactResolver(city)
    add, added = PairMemory.add, []

    def add_after_another(self: PairMemory, references: Positions, pairs: Pairs) -> Pairs | None:
        if len(references) > 1 and len(added) < 10:
            first = pairs.where(pairs.references == references[0])
            added.append(add(self, references[:1], first))
        return add(self, references, pairs)

    with patch.object(PairMemory, "add", add_after_another):
        assert resolver.warm_up()
    assert len(added) == 10
    assert resolver.memory().rows == len(city)
    assert stages_of(resolver, hops_of(city)) == stages_of(ExactResolver(city), hops_of(city))


def test_kinds_that_turn_up_between_two_relations_do_no_harm() -> None:
    kinds = PairKinds()
    pairs = np.zeros(1, np.uint8)
    turning_up = iter(["FF1F00102", "102F01FF2", "212101212"])
    truth = PairKinds.truth

    def truth_while_growing(self: PairKinds, leaf: Leaf, matrices: int) -> Bools:
        self.of(np.array([next(turning_up)], dtype=object), pairs)
        return truth(self, leaf, matrices)

    with patch.object(PairKinds, "truth", truth_while_growing):
        found = truth_by_kind(parse_condition("T OR C OR D"), kinds)
    assert found.tolist() == truth_by_kind(parse_condition("D"), kinds)[: len(found)].tolist()


def test_shapes() -> None:
    ring = [(0, 0), (1, 0), (1, 1), (0, 0)]
    geometries = (
        (Point(0, 0), Shape.POINT),
        (LineString([(0, 0), (1, 1)]), Shape.LINE),
        (LineString(ring), Shape.CLOSED_LINE),
        (Polygon(ring), Shape.AREA),
        (MultiLineString([[(0, 0), (1, 0)], [(1, 0), (0, 0)]]), Shape.CLOSED_LINE),
        (MultiLineString([[(0, 0), (1, 0)], [(1, 0), (2, 0)]]), Shape.LINE),
        (MultiLineString([ring, ring[:2]]), Shape.LINE),
    )
    table = table_of((n, ("a",), geometry) for n, (geometry, _) in enumerate(geometries))
    assert [SHAPES[code] for code in shape_codes(table)] == [shape for _, shape in geometries]


@pytest.mark.parametrize("geometry", [None, Point(), GeometryCollection([Point(0, 0)])])
def test_a_geometry_without_relations_is_an_error_of_the_world(geometry: object) -> None:
    table = table_of([(7, ("a",), Point(0, 0)), (9, ("a",), geometry)])
    with pytest.raises(WorldError, match="entity 9"):
        ExactResolver(table)


def test_limits_count_from_now() -> None:
    limits = ResolutionLimits.within(60)
    assert 0 < limits.seconds_left() <= 60
    assert limits.deadline is not None
    assert limits.deadline > time.monotonic()
    assert ResolutionLimits().seconds_left() == -1
