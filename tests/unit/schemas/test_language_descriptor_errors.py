"""What the descriptor's reader refuses: each error names the stage and says what is allowed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.errors import DescriptorError, NotationError
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.limits import MAX_CATEGORY_PATTERNS, MAX_PEID, MAX_REFS

FIRST = {"cats": ["a"], "cond": "C"}
SECOND = {"refStages": "Prev", "cats": ["a"], "cond": "T"}


def descriptor(*stages: Any, **others: Any) -> dict[str, Any]:
    """A legal descriptor but for what a test puts in."""
    return {"refs": [1], "stages": list(stages) or [FIRST], **others}


WRONG: list[tuple[str, dict[str, Any], int | None, str]] = [
    ("unknown key", descriptor(colour=1), None, "unknown key 'colour'; allowed: name, refs"),
    ("unknown stage key", descriptor(FIRST, SECOND | {"cat": []}), 2, "allowed: refStages, cats"),
    ("no refs", {"stages": [FIRST]}, None, "refs is missing"),
    ("no stages", {"refs": [1]}, None, "stages is missing"),
    ("no cats", descriptor({"cond": "C"}), 1, "cats is missing"),
    ("no cond", descriptor({"cats": ["a"]}), 1, "cond is missing"),
    ("refs not a list", descriptor() | {"refs": 5}, 1, "refs is 5; allowed: a non-empty list"),
    ("refs empty", descriptor() | {"refs": []}, 1, "refs is empty"),
    ("ref true", descriptor() | {"refs": [True]}, 1, "refs has true"),
    ("ref float", descriptor() | {"refs": [1.0]}, 1, "refs has 1.0"),
    ("ref negative", descriptor() | {"refs": [-1]}, 1, "integers 0 .. 9223372036854775807"),
    ("ref too large", descriptor() | {"refs": [MAX_PEID + 1]}, 1, "refs has 9223372036854775808"),
    ("ref string too large", descriptor() | {"refs": [str(MAX_PEID + 1)]}, 1, "refs has 922"),
    ("ref string huge", descriptor() | {"refs": ["9" * 5000]}, 1, "refs has '999"),
    ("ref string with space", descriptor() | {"refs": [" 5"]}, 1, "refs has ' 5'"),
    ("ref string with sign", descriptor() | {"refs": ["+5"]}, 1, "refs has '+5'"),
    ("ref string underscored", descriptor() | {"refs": ["1_0"]}, 1, "refs has '1_0'"),
    (
        "ref string in other digits",
        descriptor() | {"refs": ["\u0665"]},
        1,
        r"refs has '\u0665'",
    ),
    ("ref string empty", descriptor() | {"refs": [""]}, 1, "refs has ''"),
    ("ref null", descriptor() | {"refs": [None]}, 1, "refs has null"),
    ("too many refs", descriptor() | {"refs": [*range(MAX_REFS + 1)]}, 1, "at most 4096"),
    ("stages empty", {"refs": [1], "stages": []}, 1, "a non-empty list of stage objects"),
    ("stages an object", {"refs": [1], "stages": FIRST}, 1, "stages is an object"),
    ("stage not an object", descriptor(FIRST, 5), 2, "it is 5; allowed: an object"),
    ("refStages in stage 1", descriptor(SECOND), 1, "refStages is not allowed in stage 1"),
    ("refStages missing", descriptor(FIRST, FIRST), 2, "refStages is missing"),
    ("refStages empty", descriptor(FIRST, SECOND | {"refStages": []}), 2, "refStages is empty"),
    ("refStages 0", descriptor(FIRST, SECOND | {"refStages": [0]}), 2, "out of 1 .. 1"),
    ("refStages itself", descriptor(FIRST, SECOND | {"refStages": [2]}), 2, "refStages has 2"),
    ("refStages true", descriptor(FIRST, SECOND | {"refStages": [True]}), 2, "refStages has true"),
    ("refStages string", descriptor(FIRST, SECOND | {"refStages": "prev"}), 2, '"Prev", "Anc" or'),
    ("refStages number", descriptor(FIRST, SECOND | {"refStages": 1}), 2, "refStages is 1"),
    ("repeat in stage 1", descriptor(FIRST | {"repeat": 1}), 1, "repeat is not allowed in stage 1"),
    ("repeat 0", descriptor(FIRST, SECOND | {"repeat": 0}), 2, "an integer of at least 1"),
    ("repeat -1", descriptor(FIRST, SECOND | {"repeat": -1}), 2, "repeat is -1"),
    ("repeat true", descriptor(FIRST, SECOND | {"repeat": True}), 2, "repeat is true"),
    ("repeat float", descriptor(FIRST, SECOND | {"repeat": 2.0}), 2, "repeat is 2.0"),
    ("repeat huge", descriptor(FIRST, SECOND | {"repeat": 10**12}), 2, "at most 64"),
    ("cats empty", descriptor(FIRST | {"cats": []}), 1, "cats is empty"),
    ("cats a string", descriptor(FIRST | {"cats": "road"}), 1, "cats is 'road'"),
    ("cat a number", descriptor(FIRST | {"cats": ["a", 5]}), 1, "cats has 5"),
    ("cat huge number", descriptor(FIRST | {"cats": [10**30]}), 1, "cats has an integer"),
    ("cat empty", descriptor(FIRST | {"cats": [""]}), 1, "pattern '' is empty"),
    ("cat a+/b", descriptor(FIRST | {"cats": ["a+/b"]}), 1, "'+' alone in its level"),
    ("cat #/a", descriptor(FIRST, SECOND | {"cats": ["#/a"]}), 2, "'#' alone in the last level"),
    ("cat with NUL", descriptor(FIRST | {"cats": ["a\0"]}), 1, "U+0000"),
    ("cat half surrogate", descriptor(FIRST | {"cats": ["a\ud800"]}), 1, "surrogate"),
    ("too many cats", descriptor(FIRST | {"cats": ["a"] * (MAX_CATEGORY_PATTERNS + 1)}), 1, "256"),
    ("cond a list", descriptor(FIRST | {"cond": ["C"]}), 1, "cond is a list of 1"),
    ("visible short", descriptor(FIRST, SECOND, visible=[True]), 2, "each of the 2 written-out"),
    ("visible long", descriptor(FIRST, visible=[True] * 3), 2, "each of the 1 written-out"),
    ("visible empty", descriptor(FIRST, visible=[]), 1, "visible has 0 values"),
    ("visible none", descriptor(FIRST, visible=[False]), None, "at least one true"),
    ("visible 1", descriptor(FIRST, SECOND, visible=[True, 1]), 2, "visible has 1; allowed: true"),
    ("visible true", descriptor(FIRST, visible=True), None, "visible is true; allowed: a list"),
    ("visible null", descriptor(FIRST, visible=None), None, "visible is null"),
    ("name null", descriptor(name=None), None, "name is null; allowed: a string"),
    ("name with NUL", descriptor(name="\0"), None, "name has the character U+0000"),
    ("name half surrogate", descriptor(name="\udc00"), None, "name has half of a surrogate"),
]


@pytest.mark.parametrize(
    ("source", "stage", "text"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG]
)
def test_a_violation_names_the_stage_and_what_is_allowed(
    source: dict[str, Any], stage: int | None, text: str
) -> None:
    for form in (source, json.dumps(source), json.dumps(source).encode()):
        with pytest.raises(DescriptorError) as caught:
            parse_descriptor(form)
        assert caught.value.stage == stage
        message = str(caught.value)
        assert text in message
        if stage is not None:
            assert message.startswith(f"stage {stage}: ")


def test_stage_numbers_in_errors_count_the_written_out_stages() -> None:
    source = descriptor(FIRST, SECOND | {"repeat": 3}, SECOND | {"refStages": [5]})
    with pytest.raises(DescriptorError, match=r"^stage 5: refStages has 5; .* out of 1 \.\. 4$"):
        parse_descriptor(source)


def test_a_wrong_condition_is_pointed_at_inside_its_stage() -> None:
    with pytest.raises(NotationError) as caught:
        parse_descriptor(descriptor(FIRST, SECOND | {"cond": "C AND DW-5"}))
    assert caught.value.stage == 2
    assert caught.value.position == 8
    assert str(caught.value).startswith("stage 2: at character 9 of cond: expected a distance")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"refs":[1],"refs":[2],"stages":[]}', "refs is written twice"),
        (
            '{"refs":[1],"stages":[{"cats":["a"],"cond":"C","cond":"T"}]}',
            "^stage 1: cond is written twice",
        ),
        ('{"refs":[NaN],"stages":[]}', "^stage 1: refs has nan"),
        ('{"refs":[1e400],"stages":[]}', "^stage 1: refs has inf"),
        ('{"refs":[' + "9" * 5000 + '],"stages":[]}', "refs has an integer that is too large"),
        ('{"refs":[-' + "9" * 5000 + '],"stages":[]}', "refs has an integer that is too large"),
        ("", "not JSON: at character 1"),
        ("{", "not JSON: at character 2"),
        ('{"refs":[1],}', "not JSON"),
        ("{} {}", "not JSON: at character 4: Extra data"),
        ("[]", "the descriptor is a list of 0; allowed: an object with refs and stages"),
        ("null", "the descriptor is null"),
        ('"Prev"', "the descriptor is 'Prev'"),
        ("\ufeff{}", "not JSON"),
        ("\ud800", "not valid UTF-8"),
        ('{"na\\ud800me":1}', r"unknown key 'na\\ud800me'"),
        ("[" * 50_000, "nested too deeply"),
    ],
)
def test_broken_json_is_one_readable_line(text: str, message: str) -> None:
    with pytest.raises(DescriptorError, match=message):
        parse_descriptor(text)


@pytest.mark.parametrize("data", [b"\xff{}", '{"refs":[1]}'.encode("utf-16"), b"\xed\xa0\x80"])
def test_bytes_must_be_utf8(data: bytes) -> None:
    with pytest.raises(DescriptorError, match="not valid UTF-8"):
        parse_descriptor(data)


@pytest.mark.parametrize("source", [None, 5, [], bytearray(b"{}")])
def test_other_types_are_refused(source: Any) -> None:
    with pytest.raises(DescriptorError, match="allowed: an object with refs and stages"):
        parse_descriptor(source)
