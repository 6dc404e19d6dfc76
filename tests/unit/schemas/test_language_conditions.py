"""Conditions: every way to write them, what binds how, and errors that point at the place."""

from __future__ import annotations

import pytest

from schemas.errors import NotationError
from schemas.language.condition_parser import parse_condition
from schemas.language.conditions import (
    And,
    Condition,
    Not,
    Or,
    Relate,
    Topological,
    WithinDistance,
    condition_text,
)
from schemas.language.limits import MAX_CONDITION_DEPTH, MAX_CONDITION_LEAVES, MAX_DISTANCE_METRES
from schemas.topology.relations import LONG_NAMES

B, C, T, X = (Topological(short) for short in "BCTX")


@pytest.mark.parametrize(("short", "long"), LONG_NAMES.items())
def test_each_relation_has_a_short_name_as_written_and_a_long_one_in_any_case(
    short: str, long: str
) -> None:
    for text in (short, long, long.lower(), long.upper(), f" {short}\t"):
        assert parse_condition(text) == Topological(short)
    assert condition_text(parse_condition(long)) == short


def test_the_table_of_the_contract_is_complete() -> None:
    assert set(LONG_NAMES) == {"E", "I", "D", "T", "C", "W", "CV", "CB", "X", "O", "B"}


@pytest.mark.parametrize(
    ("text", "metres", "printed"),
    [
        ("DW500", 500.0, "DW500"),
        ("WD500", 500.0, "DW500"),
        ("DWithin(500)", 500.0, "DW500"),
        ("dwithin ( 0.5 )", 0.5, "DW0.5"),
        ("DW 0.5", 0.5, "DW0.5"),
        ("DW(12.50)", 12.5, "DW12.5"),
        ("DW0", 0.0, "DW0"),
        ("DW007", 7.0, "DW7"),
        ("DW0.1", 0.1, "DW0.1"),
        ("DW0.00000001", 1e-8, "DW0.00000001"),
        ("DW123456.789", 123456.789, "DW123456.789"),
        (f"DW{MAX_DISTANCE_METRES:.0f}", MAX_DISTANCE_METRES, f"DW{MAX_DISTANCE_METRES:.0f}"),
    ],
)
def test_distances(text: str, metres: float, printed: str) -> None:
    condition = parse_condition(text)
    assert condition == WithinDistance(metres)
    assert condition_text(condition) == printed


def test_relate_takes_a_mask_of_nine_characters() -> None:
    assert parse_condition("Relate(T*F**FFF*)") == Relate("T*F**FFF*")
    assert parse_condition("RELATE ( tf*012tf* )") == Relate("TF*012TF*")
    assert condition_text(Relate("T*F**FFF*")) == "Relate(T*F**FFF*)"


@pytest.mark.parametrize(
    ("text", "tree", "printed"),
    [
        ("NOT C AND T OR B", Or((And((Not(C), T)), B)), "NOT C AND T OR B"),
        ("C OR T AND NOT B", Or((C, And((T, Not(B))))), "C OR T AND NOT B"),
        ("(C OR T) AND B", And((Or((C, T)), B)), "(C OR T) AND B"),
        ("NOT (C AND T)", Not(And((C, T))), "NOT (C AND T)"),
        ("NOT NOT C", Not(Not(C)), "NOT NOT C"),
        ("((C))", C, "C"),
        ("(C AND T) AND (B)", And((C, T, B)), "C AND T AND B"),
        ("C OR (T OR (B OR X))", Or((C, T, B, X)), "C OR T OR B OR X"),
        ("C ∧ T \N{LOGICAL OR} ¬B", Or((And((C, T)), Not(B))), "C AND T OR NOT B"),
        ("C&T|!B", Or((And((C, T)), Not(B))), "C AND T OR NOT B"),
        ("contains and not(touches)oR border",
         Or((And((C, Not(T))), B)), "C AND NOT T OR B"),
        ("DW5AND T", And((WithinDistance(5.0), T)), "DW5 AND T"),
    ],
)  # fmt: skip
def test_how_operators_bind_and_how_little_is_printed(
    text: str, tree: Condition, printed: str
) -> None:
    assert parse_condition(text) == tree
    assert condition_text(tree) == printed


def test_symbols_print_shorter() -> None:
    tree = parse_condition("(C OR T) AND NOT (B AND DW5)")
    assert condition_text(tree, symbols=True) == "(C|T)&!(B&DW5)"


RELATION = "a relation (E, I, D,"


@pytest.mark.parametrize(
    ("text", "position", "expected", "found"),
    [
        ("", 0, RELATION, "the end"),
        ("   ", 3, RELATION, "the end"),
        ("C AND", 5, RELATION, "the end"),
        ("C AND OR T", 6, RELATION, "'OR T'"),
        ("AND C", 0, RELATION, "'AND C'"),
        ("C T", 2, "AND, OR or the end of the condition", "'T'"),
        ("C NOT T", 2, "AND, OR or the end of the condition", "'NOT T'"),
        ("C AN T", 2, "AND, OR or the end of the condition", "'AN T'"),
        ("(C AND T", 8, "AND, OR or ')'", "the end"),
        ("C)", 1, "AND, OR or the end of the condition", "')'"),
        ("()", 1, RELATION, "')'"),
        ("c", 0, "C (short names are written in capitals)", "'c'"),
        ("T AND cv", 6, "CV (short names", "'cv'"),
        ("dw5", 0, "DW (short names", "'dw5'"),
        ("CX", 0, RELATION, "'CX'"),
        ("Foo(1)", 0, RELATION, "'Foo(1)'"),
        ("DW", 2, "a distance in metres such as 500 or 0.5", "the end"),
        ("DW-5", 2, "a distance in metres", "'-5'"),
        ("DW50m", 4, "no unit: a distance is in metres", "'m'"),
        ("DW5 km AND T", 4, "no unit: a distance is in metres", "'km AND T'"),
        ("DW.5", 2, "a distance in metres", "'.5'"),
        ("DW1e3", 3, "AND, OR or the end", "'e3'"),
        ("DW5.", 3, "AND, OR or the end", "'.'"),
        ("DW\N{ARABIC-INDIC DIGIT FIVE}", 2, "a distance in metres", r"'\u0665'"),
        ("DWithin(5", 9, "')'", "the end"),
        ("DWithin()", 8, "a distance in metres", "')'"),
        ("DW20037509", 2, "a distance of at most 20037508 metres", "'20037509'"),
        ("Relate", 6, "'('", "the end"),
        ("Relate(T*****)", 13, "a mask of 9 characters out of T, F, *, 0, 1, 2", "')'"),
        ("Relate(T*3******)", 9, "a mask of 9 characters", "'3******)'"),
        ("Relate(T*********)", 16, "')'", "'*)'"),
        ("C\0", 1, "AND, OR or the end", r"'\x00'"),
    ],
)
def test_an_error_says_where_what_and_what_instead(
    text: str, position: int, expected: str, found: str
) -> None:
    with pytest.raises(NotationError) as caught:
        parse_condition(text)
    assert caught.value.position == position
    assert caught.value.expected.startswith(expected)
    message = str(caught.value)
    assert message.startswith(f"at character {position + 1}: expected {expected}")
    assert message.endswith(f", found {found}")


def test_depth_is_limited_and_never_exhausts_the_stack() -> None:
    deepest = "NOT (" * (MAX_CONDITION_DEPTH // 2) + "C" + ")" * (MAX_CONDITION_DEPTH // 2)
    assert parse_condition(condition_text(parse_condition(deepest))) == parse_condition(deepest)
    for text in (f"NOT {deepest}", "(" * 60_000, "!" * 60_000 + "C", "NOT(" * 15_000):
        with pytest.raises(NotationError, match="at most 64 NOTs and parentheses inside each"):
            parse_condition(text)


def test_depth_counts_what_is_open_not_what_was_there() -> None:
    many = " AND ".join(["NOT (NOT C OR T)"] * 100)
    assert isinstance(parse_condition(many), And)


def test_the_number_of_relations_is_limited() -> None:
    assert isinstance(parse_condition(" OR ".join(["C"] * MAX_CONDITION_LEAVES)), Or)
    with pytest.raises(NotationError, match="expected at most 256 relations") as caught:
        parse_condition("|".join(["C"] * (MAX_CONDITION_LEAVES + 1)))
    assert caught.value.position == 2 * MAX_CONDITION_LEAVES
