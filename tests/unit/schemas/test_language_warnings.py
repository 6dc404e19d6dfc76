"""Conditions that no pair can satisfy are found by reasoning, and the warning names the stage."""

from __future__ import annotations

import pytest

from schemas.language.condition_parser import parse_condition
from schemas.language.explain import neighborhood_warnings
from schemas.language.notation import parse_notation
from schemas.topology.satisfiability import unsatisfiable


@pytest.mark.parametrize(
    "text",
    [
        "C AND T", "E AND D", "I AND NOT I", "DW10 AND NOT DW20", "E AND X", "E AND O",
        "C AND W AND NOT E", "CV AND CB AND NOT E", "D AND DW0", "I AND NOT DW5", "I AND NOT DW0",
        "Relate(T********) AND T", "Relate(F*******1)", "Relate(********F)",
        "X AND Relate(2********)", "B AND D", "C AND O", "C AND X", "T AND X", "X AND O",
        "C AND NOT CV", "W AND NOT CB", "C AND NOT I", "E AND NOT CV", "T AND NOT I",
        "NOT (I OR D)", "NOT (DW5 OR NOT DW5)", "(DW5 OR DW10) AND NOT DW20",
        "NOT D AND NOT DW100", "NOT (D OR DW3)", "DW5 AND D AND NOT DW5.0",
        # Areas: a border inside the other's interior has that interior on both sides.
        "Relate(F**1***2*)", "Relate(2*F1**F**)", "Relate(2FF1FFFF2)",
        # Two areas whose borders are the same are the same area.
        "Relate(F***1F2F2) AND Relate(**2FFF***)",
        # A line's boundary is points, and its interior does not vanish around them.
        "Relate(***1*****) AND Relate(**1**0***)",
    ],
)  # fmt: skip
def test_found_to_be_impossible(text: str) -> None:
    assert unsatisfiable(parse_condition(text))


@pytest.mark.parametrize(
    "text",
    [
        "E", "I", "D", "T", "C", "W", "CV", "CB", "X", "O", "B", "DW0", "DW5", "NOT DW5",
        "C AND B", "C AND W", "E AND B", "E AND NOT B", "CV AND NOT C", "CB AND NOT W", "T AND B",
        "T AND NOT B", "DW20 AND NOT DW10", "D AND DW10", "I AND DW0", "T AND CV", "X AND B",
        "NOT (C AND T)", "C AND T OR C AND B", "D OR I", "Relate(FF*FF****)", "E AND C AND W",
        "Relate(0********) AND X", "Relate(1********) AND O", "Relate(2121FF212)",
        "D AND NOT DW5 AND DW5.0000001",
    ],
)  # fmt: skip
def test_left_alone_because_some_pair_satisfies_it(text: str) -> None:
    assert not unsatisfiable(parse_condition(text))


def test_every_condition_or_its_negation_is_possible() -> None:
    for text in ("C AND T", "C", "DW10 AND NOT DW20", "I OR D"):
        possible = [not unsatisfiable(parse_condition(f"{word}({text})")) for word in ("", "NOT ")]
        assert any(possible)


def test_a_warning_names_the_stage_and_the_condition() -> None:
    neighborhood = parse_notation("({1},{a},C) ; (Prev,{a},E AND D) ; (Prev,{a},T)")
    assert neighborhood_warnings(neighborhood) == (
        "stage 2: always empty, because no pair of geometries can satisfy E AND D",
    )


def test_a_warning_says_what_may_have_been_meant() -> None:
    assert neighborhood_warnings(parse_notation("({1},{a},C AND T)")) == (
        (
            "stage 1: always empty, because no pair of geometries can satisfy C AND T "
            "(T excludes common interior points; C AND B does not)"
        ),
    )
    assert neighborhood_warnings(parse_notation("({1},{a},C AND B)")) == ()
    assert "(" not in neighborhood_warnings(parse_notation("({1},{a},T AND D)"))[0]


def test_stages_that_refer_only_to_empty_ones_are_empty_too() -> None:
    neighborhood = parse_notation(
        "({1},{a},C);2(Anc,{a},I AND D);({2,3},{a},T);2({3,4},{a},T);({1,2},{a},T);(Prev,{a},T)"
    )
    assert neighborhood_warnings(neighborhood) == (
        "stages 2 to 3: always empty, because no pair of geometries can satisfy I AND D",
        "stage 4: always empty, because every stage it refers to is",
        "stages 5 to 6: always empty, because every stage it refers to is",
    )


def test_nothing_to_warn_about_in_the_example_of_the_contract() -> None:
    text = "({4711},{road/#},C);3(Prev,{road/#},T);({2,3,4},{transport/parking},T) visible 00001"
    assert neighborhood_warnings(parse_notation(text)) == ()
