"""Each rule of the contract's descriptor section: what is read, and its limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.errors import DescriptorError
from schemas.language.conditions import And, Topological, WithinDistance
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.limits import MAX_DESCRIPTOR_BYTES, MAX_PEID, MAX_STAGES
from schemas.language.neighborhood import Neighborhood, Stage, WrittenStage

ROADS = ("road/#",)
C, T = Topological("C"), Topological("T")

EXAMPLE: dict[str, Any] = {
    "name": "parking around the zone",
    "refs": [4711],
    "stages": [
        {"cats": ["road/#"], "cond": "C"},
        {"refStages": "Prev", "cats": ["road/#"], "cond": "T", "repeat": 3},
        {"refStages": [2, 3, 4], "cats": ["transport/parking"], "cond": "T"},
    ],
    "visible": [False, False, False, False, True],
}


FIRST = {"cats": ["a"], "cond": "C"}
SECOND = {"refStages": "Prev", "cats": ["a"], "cond": "T"}


def descriptor(*stages: Any, **others: Any) -> dict[str, Any]:
    """A short legal descriptor with what a test puts in."""
    return {"refs": [1], "stages": list(stages) or [FIRST], **others}


def test_the_example_of_the_contract() -> None:
    neighborhood = parse_descriptor(json.dumps(EXAMPLE))
    assert neighborhood == Neighborhood(
        refs=(4711,),
        stages=(
            Stage(ROADS, C),
            Stage(ROADS, T, "Prev", 3),
            Stage(("transport/parking",), T, (2, 3, 4)),
        ),
        visible=(False, False, False, False, True),
        name="parking around the zone",
    )
    assert neighborhood.written_out() == (
        WrittenStage(1, (0,), ROADS, C),
        WrittenStage(2, (1,), ROADS, T),
        WrittenStage(3, (1, 2), ROADS, T),
        WrittenStage(4, (1, 2, 3), ROADS, T),
        WrittenStage(5, (2, 3, 4), ("transport/parking",), T),
    )
    assert neighborhood.to_object() == EXAMPLE
    assert parse_descriptor(EXAMPLE) == neighborhood


def test_anc_and_lists_in_repeated_stages() -> None:
    written = parse_descriptor(
        descriptor(
            FIRST,
            {"refStages": "Anc", "cats": ["a"], "cond": "T", "repeat": 2},
            {"refStages": [2, 1], "cats": ["a"], "cond": "T", "repeat": 2},
        )
    ).written_out()
    assert [stage.ref_stages for stage in written] == [(0,), (1,), (2,), (1, 2), (1, 2)]


def test_refs_are_integers_or_decimal_strings_and_count_once() -> None:
    assert parse_descriptor(descriptor() | {"refs": [7, "7", "007", 0, str(MAX_PEID)]}).refs == (
        7,
        0,
        MAX_PEID,
    )


def test_defaults_are_left_out_when_written() -> None:
    neighborhood = parse_descriptor(descriptor(FIRST, SECOND | {"repeat": 1}, visible=[True, True]))
    assert neighborhood == parse_descriptor(descriptor(FIRST, SECOND))
    assert neighborhood.to_json() == (
        '{"refs":[1],"stages":[{"cats":["a"],"cond":"C"},'
        '{"refStages":"Prev","cats":["a"],"cond":"T"}]}'
    )


def test_lists_that_mean_sets_are_kept_without_repetition() -> None:
    stage = {"refStages": [2, 1, 2], "cats": ["b", "a/", "b", "a"], "cond": "T"}
    stages = parse_descriptor(descriptor(FIRST, SECOND, stage)).stages
    assert stages[2] == Stage(("b", "a"), T, (1, 2))


def test_a_name_is_optional_and_any_text() -> None:
    assert parse_descriptor(descriptor()).name is None
    assert parse_descriptor(descriptor(name="")).name == ""
    assert parse_descriptor(descriptor(name="Straße 漢 😀\n")).name == "Straße 漢 😀\n"


def test_the_limit_in_bytes_holds_for_every_form() -> None:
    empty = len(parse_descriptor(descriptor(name="")).to_json().encode())
    fits = descriptor(name="ü" * ((MAX_DESCRIPTOR_BYTES - empty) // 2))
    exact = len(json.dumps(fits, ensure_ascii=False, separators=(",", ":")).encode())
    assert MAX_DESCRIPTOR_BYTES - 1 <= exact <= MAX_DESCRIPTOR_BYTES
    assert parse_descriptor(fits) == parse_descriptor(parse_descriptor(fits).to_json())
    longer = fits | {"name": fits["name"] + "ü"}
    text = json.dumps(longer, ensure_ascii=False, separators=(",", ":"))
    for form in (longer, text, text.encode()):
        with pytest.raises(DescriptorError, match="bytes; allowed: at most 65535"):
            parse_descriptor(form)


def test_what_was_short_enough_to_read_is_short_enough_to_write() -> None:
    stage = {"refStages": "Prev", "cats": ["a"], "cond": "&".join(["!C"] * 256)}
    source = descriptor(FIRST, *[stage] * (MAX_STAGES - 1))
    text = json.dumps(source, separators=(",", ":"))
    assert len(text) < MAX_DESCRIPTOR_BYTES
    neighborhood = parse_descriptor(text)
    written = neighborhood.to_json()
    assert len(written) < MAX_DESCRIPTOR_BYTES
    assert parse_descriptor(written) == neighborhood


def test_the_number_of_written_out_stages_is_limited() -> None:
    full = descriptor(FIRST, SECOND | {"repeat": MAX_STAGES - 1})
    assert len(parse_descriptor(full).written_out()) == MAX_STAGES
    full["stages"].append(SECOND)
    with pytest.raises(DescriptorError, match=r"^stage 65: .* at most 64"):
        parse_descriptor(full)


def test_conditions_are_read_in_every_form() -> None:
    source = descriptor({"cats": ["a"], "cond": "contains ∧ WD10"})
    neighborhood = parse_descriptor(source)
    assert neighborhood.stages[0].condition == And((C, WithinDistance(10.0)))
    assert neighborhood.to_object()["stages"][0]["cond"] == "C AND DW10"
