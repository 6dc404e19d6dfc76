"""Printing and reading are inverses, and reading anything at all gives our own error or sense."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.errors import DescriptorError, NotationError
from schemas.language.condition_parser import parse_condition
from schemas.language.conditions import Condition, condition_text
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import notation, parse_notation, read_neighborhood
from tests.strategies.language import conditions, neighborhoods

Result = TypeVar("Result")

# Pieces of the language, so that random text gets past the first character.
PIECES = st.sampled_from(
    ["({1},{a},C)", "(Prev,{a/#},T)", "(", ")", "{", "}", ",", ";", "•", "Prev", "Anc", "visible",
     "0", "1", "42", '"', '"x":', "C", "T", "cv", "CV", "DW", "DW5", "DWithin(", "Relate(", "NOT ",
     "!", "¬", " AND ", " or ", "&", "|", "TF*012TF*", "-", "1.5", ".", " ", "\\", "\n",
     "\0", "\ud800"]
)  # fmt: skip
NOISE = st.lists(st.one_of(PIECES, st.text(max_size=3)), max_size=12).map("".join)

JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
        st.sampled_from(["Prev", "Anc", "C", "road/#", 10**30, 1, 2, 0, -1, True]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(
                ["name", "refs", "stages", "visible", "refStages", "cats", "cond", "repeat", "x"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)  # fmt: skip


@given(conditions(max_leaves=20))
def test_a_printed_condition_reads_back_as_the_same_tree(condition: Condition) -> None:
    assert parse_condition(condition_text(condition)) == condition
    assert parse_condition(condition_text(condition, symbols=True)) == condition


@given(conditions())
def test_no_printed_parenthesis_can_be_left_out(condition: Condition) -> None:
    text = condition_text(condition)
    for start, character in enumerate(text):
        if character == "(" and not text[:start].endswith("Relate"):
            end = _closing(text, start)
            without = text[:start] + text[start + 1 : end] + text[end + 1 :]
            assert parse_condition(without) != condition


def _closing(text: str, start: int) -> int:
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise AssertionError(text)


@given(neighborhoods())
def test_json_reads_back_as_the_same_neighborhood(neighborhood: Neighborhood) -> None:
    text = neighborhood.to_json()
    assert parse_descriptor(text) == neighborhood
    assert parse_descriptor(text.encode()) == neighborhood
    assert parse_descriptor(neighborhood.to_object()) == neighborhood
    assert read_neighborhood(" " + text) == neighborhood
    assert neighborhood.to_object() == json.loads(text)


@given(neighborhoods())
def test_notation_reads_back_as_the_same_neighborhood(neighborhood: Neighborhood) -> None:
    assert read_neighborhood(notation(neighborhood, with_name=True)) == neighborhood
    assert parse_notation(notation(neighborhood)) == replace(neighborhood, name=None)


@given(neighborhoods())
def test_notation_is_one_line_of_printable_characters(neighborhood: Neighborhood) -> None:
    assert notation(neighborhood, with_name=True).isprintable()


@settings(max_examples=300)
@given(NOISE)
def test_any_text_is_a_condition_or_a_notation_error(text: str) -> None:
    outcome = outcome_of(parse_condition, text)
    if isinstance(outcome, DescriptorError):
        assert isinstance(outcome, NotationError)
        assert 0 <= outcome.position <= len(text)
        assert outcome.expected
        check_one_line(outcome)
    else:
        assert parse_condition(condition_text(outcome)) == outcome


@settings(max_examples=300)
@given(st.one_of(NOISE, NOISE.map("({1},{a},C)".__add__), st.text()))
@example('"\ud800": ({1},{a},C)')
@example('({1},{"\ud800"},C)')
@example('({1},{"\\ud800"},C)')
@example("({1},{\ud800},C)")
@example("({" + "1" * 5000 + "},{a},C)")
@example("9" * 5000)
def test_any_text_is_a_neighborhood_or_a_descriptor_error(text: str) -> None:
    outcome = outcome_of(read_neighborhood, text)
    if isinstance(outcome, DescriptorError):
        check_one_line(outcome)
    else:
        assert read_neighborhood(notation(outcome, with_name=True)) == outcome


@given(st.one_of(st.binary(), st.text().map(str.encode)))
@example(b"\xff\xfe{\x00}\x00")
@example(b"[" * 60_000)
@example(b'{"a":' * 12_000)
@example(b'{"refs":' + b"[" * 900 + b"]" * 900 + b',"stages":[]}')
def test_any_bytes_are_a_descriptor_error(data: bytes) -> None:
    # Random bytes of this size are never a descriptor: the shortest one has 42 of them.
    outcome = outcome_of(parse_descriptor, data)
    assert isinstance(outcome, DescriptorError)
    check_one_line(outcome)


@settings(max_examples=300)
@given(JSON_VALUES)
@example({"refs": [1], "stages": [{"cats": ["a"], "cond": 10**5000}]})
@example({"refs": [10**5000], "stages": [{"cats": ["a"], "cond": "C"}]})
@example({"refs": [1], "stages": [{"cats": ["a"], "cond": "C"}], "visible": [10**5000]})
@example({1: 2})
def test_any_value_is_a_descriptor_or_a_descriptor_error(value: Any) -> None:
    outcome = outcome_of(parse_descriptor, value)
    if isinstance(outcome, DescriptorError):
        check_one_line(outcome)
        assert "allowed" in str(outcome) or isinstance(outcome, NotationError)
    else:
        assert parse_descriptor(outcome.to_json()) == outcome


@settings(max_examples=300)
@given(JSON_VALUES, JSON_VALUES, JSON_VALUES, JSON_VALUES, st.integers(1, 3))
def test_a_broken_stage_is_named_by_its_written_out_number(
    ref_stages: Any, cats: Any, cond: Any, repeat: Any, copies: int
) -> None:
    first = {"cats": ["a"], "cond": "C"}
    second = {"refStages": "Prev", "cats": ["a"], "cond": "C", "repeat": copies}
    drawn = {"refStages": ref_stages, "cats": cats, "cond": cond, "repeat": repeat}
    outcome = outcome_of(parse_descriptor, {"refs": [1], "stages": [first, second, drawn]})
    if isinstance(outcome, DescriptorError):
        assert outcome.stage == copies + 2
        assert str(outcome).startswith(f"stage {copies + 2}: ")


def outcome_of(read: Callable[[Any], Result], source: object) -> Result | DescriptorError:
    """What reading gives, or the one kind of error that it may raise."""
    try:
        return read(source)
    except DescriptorError as error:
        return error


def check_one_line(error: DescriptorError) -> None:
    text = str(error)
    assert text.isprintable()
    assert len(text) < 300
