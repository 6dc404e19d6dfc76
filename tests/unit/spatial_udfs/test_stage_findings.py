"""What the stages of a neighborhood have to do with an entity."""

from __future__ import annotations

import numpy as np
import pytest
import shapely

from schemas.errors import DeadlineError
from schemas.language.notation import parse_notation
from spatial_udfs.exact.exact_resolver import ExactResolver
from spatial_udfs.resolution_limits import ResolutionLimits
from testing.synthetic_city import synthetic_city
from tests.strategies.drawn_city import EAST, FAR_STREET, INNER_EAST, ZONE, drawn_city

N5 = "({1},{road/#},C) • 3(Prev,{road/#},T) • ({2,3,4},{transport/parking},T) visible 00001"
CITY = ExactResolver(drawn_city())


def test_stage_by_stage() -> None:
    findings = CITY.findings(parse_notation(N5), EAST)
    assert [one.number for one in findings] == [1, 2, 3, 4, 5]
    assert [one.is_visible for one in findings] == [False] * 4 + [True]
    assert [one.is_member for one in findings] == [False, True, False, False, False]
    # A member of stage 2 is a reference of the later ones.
    assert [one.is_reference for one in findings] == [False, False, True, True, True]
    assert [one.is_selectable for one in findings] == [True] * 4 + [False]
    # Stage 3 is EAST_2, which it touches; 32 lies at EAST itself.
    assert [one.distance for one in findings] == [0, 0, 0, 2, 0]


def test_distances_to_the_nearest_member() -> None:
    shops = parse_notation("({1},{shop/#},DW50) • (Anc,{zone/none},I)")
    near, nothing = CITY.findings(shops, FAR_STREET)
    # The shops are at (3, 3), (5, 3) and (9, 5); the street ends at (8, 5.5).
    assert near.distance == pytest.approx(np.hypot(1, 0.5))
    assert (nothing.distance, nothing.is_member) == (None, False)


def test_the_reference_itself() -> None:
    (finding,) = CITY.findings(parse_notation("({1},{#},C)"), ZONE)
    assert (finding.is_member, finding.is_reference, finding.is_selectable) == (False, True, True)


def test_an_entity_that_the_world_lacks() -> None:
    assert CITY.findings(parse_notation(N5), 999) == ()


def test_distances_are_the_smallest_of_all() -> None:
    table = synthetic_city(600, seed=5)
    resolver = ExactResolver(table)
    road = next(
        int(peid)
        for at, peid in enumerate(table.peids)
        if any(name.startswith("road/") for name in table.categories_at(at))
    )
    neighborhood = parse_notation(f"({{{road}}},{{road/#}},T) • ({{1}},{{#}},DW200)")
    stages = resolver.resolve(neighborhood).stages
    for at in range(0, len(table), 29):
        for finding, members in zip(
            resolver.findings(neighborhood, int(table.peids[at])), stages, strict=True
        ):
            positions, _ = table.positions_of(members)
            every = shapely.distance(table.geometries[positions], table.geometries[at])
            assert finding.is_member == (at in positions)
            assert finding.distance == (0.0 if finding.is_member else every.min())


def test_the_time_limit_holds() -> None:
    with pytest.raises(DeadlineError):
        CITY.findings(parse_notation(N5), INNER_EAST, ResolutionLimits.within(0.0))
