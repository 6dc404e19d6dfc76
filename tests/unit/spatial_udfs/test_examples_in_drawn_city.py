"""The examples N1 to N6 and the consequences of the contract, on a city drawn by hand.

Look at the drawing in tests/strategies/drawn_city.py: every answer can be seen there.
"""

from __future__ import annotations

import pytest

from schemas.errors import NoReferenceError
from schemas.language.explain import neighborhood_warnings
from schemas.language.notation import parse_notation
from spatial_udfs.exact.exact_resolver import ExactResolver
from tests.oracle.definition import entities_of, resolve_by_definition
from tests.strategies.drawn_city import drawn_city

CITY = drawn_city()
N4 = "({1},{road/#},C) • 3(Prev,{road/#},T)"
N5 = N4 + " • ({2,3,4},{transport/parking},T) visible 00001"

EXAMPLES = {
    # N1: in the zone. 10 lies in its border only; 11 and 14 end there from outside.
    "({1},{road/#},C)": [{12, 13, 17}],
    "({1},{road/minor},C)": [{17}],
    "({1},{#},C)": [{2, 12, 13, 17, 31, 41}],
    "({1},{#},CV)": [{2, 10, 12, 13, 17, 31, 41}],
    "({41},{zone/#},W)": [{1}],
    # N2: one hop further; streets of the zone itself are references and do not count.
    "({1},{road/#},C) • (Prev,{road/#},T)": [{12, 13, 17}, {11, 14}],
    # N3: within a distance, the limit included.
    "({41},{shop/#},DW2)": [{42}],
    "({41},{shop/#},DW1.999999)": [set()],
    "({17},{transport/parking},DW0.5)": [{31}],
    # N4: the zone and three hops around it.
    N4: [{12, 13, 17}, {11, 14}, {15}, {16, 18}],
    # N5: parking reachable from outside the zone: 31 is inside, 34 is not reachable.
    N5: [{12, 13, 17}, {11, 14}, {15}, {16, 18}, {32, 33}],
    # N6: alternatives, negation, and what holds from afar.
    "({1},{road/#},C AND B)": [{12, 13}],
    "({1},{road/#},C AND NOT B)": [{17}],
    "({1},{road/#},T)": [{10, 11, 14}],
    "({1},{road/#},T OR C)": [{10, 11, 12, 13, 14, 17}],
    "({1},{shop/#},NOT C)": [{42, 43}],
    "({1},{shop/#},D)": [{42, 43}],
    "({12},{transport/parking},D)": [{32, 33, 34}],
    # One reference for which it holds is enough: 31 is disjoint from 14, 32 from 12.
    "({12,14},{transport/parking},D)": [{31, 32, 33, 34}],
    "({1},{transport/parking},NOT DW1)": [{33, 34}],
    "({1},{transport/parking},D AND DW1)": [{32}],
    "({42},{shop/#},DW2 OR NOT DW4)": [{41, 43}],
    "({42},{#},Relate(FF0FFF0F2))": [{33, 41, 43}],
    "({1},{road/#},C AND T)": [set()],
}


@pytest.fixture(scope="module")
def resolver() -> ExactResolver:
    return ExactResolver(CITY)


def stages_of(resolver: ExactResolver, notation: str) -> list[set[int]]:
    resolution = resolver.resolve(parse_notation(notation))
    return [set(members.tolist()) for members in resolution.stages]


@pytest.mark.parametrize("notation", EXAMPLES)
def test_example(resolver: ExactResolver, notation: str) -> None:
    assert stages_of(resolver, notation) == EXAMPLES[notation]


@pytest.mark.parametrize("notation", EXAMPLES)
def test_the_oracle_agrees_with_the_eye(notation: str) -> None:
    found, missing = resolve_by_definition(entities_of(CITY), parse_notation(notation))
    assert (found, missing) == (EXAMPLES[notation], set())


def test_only_visible_stages_give_rows(resolver: ExactResolver) -> None:
    peids, numbers = resolver.resolve(parse_notation(N5)).rows()
    assert (peids.tolist(), numbers.tolist()) == ([32, 33], [5, 5])


def test_stages_with_prev_are_disjoint(resolver: ExactResolver) -> None:
    stages = stages_of(resolver, N5)
    assert sum(map(len, stages)) == len(set.union(*stages))


def test_a_reference_is_excluded_though_another_one_touches_it(resolver: ExactResolver) -> None:
    assert stages_of(resolver, "({12,13},{road/#},T)") == [{11, 14, 17}]


def test_references_come_back_in_a_later_stage(resolver: ExactResolver) -> None:
    stages = stages_of(resolver, "({11},{road/#},T) • (Prev,{road/#},T)")
    assert stages == [{12}, {11, 13, 17}]


def test_anc_gives_an_entity_again(resolver: ExactResolver) -> None:
    notation = "({11},{road/#},T) • 2(Anc,{road/#},T)"
    assert stages_of(resolver, notation) == [{12}, {11, 13, 17}, {12, 14}]
    peids, numbers = resolver.resolve(parse_notation(notation)).rows()
    assert [row for row in zip(peids.tolist(), numbers.tolist(), strict=True) if row[0] == 12] == [
        (12, 1),
        (12, 3),
    ]


def test_an_explicit_list_takes_only_those_stages(resolver: ExactResolver) -> None:
    notation = N4 + " • ({4},{transport/parking},T)"
    assert stages_of(resolver, notation)[-1] == {33}


def test_an_empty_stage_empties_what_refers_to_it_alone(resolver: ExactResolver) -> None:
    notation = "({43},{road/#},T) • (Prev,{road/#},NOT T) • ({1},{#},D)"
    assert stages_of(resolver, notation) == [set(), set(), set()]


def test_a_missing_reference_is_reported_and_the_others_count(resolver: ExactResolver) -> None:
    resolution = resolver.resolve(parse_notation("({1,999,5},{road/minor},C)"))
    assert resolution.missing_refs == (5, 999)
    assert resolution.peids().tolist() == [17]


def test_no_reference_at_all_is_an_error(resolver: ExactResolver) -> None:
    with pytest.raises(NoReferenceError, match="version 1: 999, 998"):
        resolver.resolve(parse_notation("({999,998},{road/#},C)"))


def test_inside_and_touching_warns_and_inside_at_the_border_does_not() -> None:
    assert neighborhood_warnings(parse_notation("({1},{road/#},C AND T)"))
    assert not neighborhood_warnings(parse_notation("({1},{road/#},C AND B)"))
