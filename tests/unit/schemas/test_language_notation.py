"""The compact notation: the contract's form, what people may type instead, precise errors."""

from __future__ import annotations

import pytest

from schemas.errors import DescriptorError, NotationError
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.limits import MAX_NOTATION_CHARACTERS
from schemas.language.notation import notation, parse_notation, read_neighborhood

EXAMPLE = "({4711},{road/#},C) • 3(Prev,{road/#},T) • ({2,3,4},{transport/parking},T) visible 00001"
EXAMPLE_JSON = """
{"name": "parking around the zone",
 "refs": [4711],
 "stages": [
   {"cats": ["road/#"], "cond": "C"},
   {"refStages": "Prev", "cats": ["road/#"], "cond": "T", "repeat": 3},
   {"refStages": [2, 3, 4], "cats": ["transport/parking"], "cond": "T"}],
 "visible": [false, false, false, false, true]}
"""


def test_the_example_of_the_contract_in_both_forms() -> None:
    neighborhood = read_neighborhood(EXAMPLE_JSON)
    assert notation(neighborhood) == EXAMPLE
    named = f'"parking around the zone": {EXAMPLE}'
    assert notation(neighborhood, with_name=True) == named
    assert read_neighborhood(named) == neighborhood
    assert notation(parse_notation(EXAMPLE)) == EXAMPLE


@pytest.mark.parametrize(
    "text",
    [
        EXAMPLE.replace("•", ";"),
        EXAMPLE.replace(" • ", "•"),
        EXAMPLE.replace(" ", "\n "),
        EXAMPLE.replace("Prev", " PREV ").replace("visible", "Visible"),
        (
            "( { 4711 } , { road/# } , Contains ) ; 3 ( prev , {road/#/} , touches )"
            ";({4,3,2,2},{transport/parking,transport/parking/},(T)) visible 00001"
        ),
        EXAMPLE.replace("{4711}", "{04711,4711}"),
        EXAMPLE.replace("{road/#}", '{"road/#"}'),
    ],
)
def test_what_people_may_type_instead(text: str) -> None:
    assert parse_notation(text) == parse_notation(EXAMPLE)


def test_visible_is_left_out_when_all_stages_are() -> None:
    text = "({1,2},{#},C) • (Anc,{a,b/+},DW500 AND NOT (T OR X))"
    assert parse_notation(f"{text} visible 11") == parse_notation(text)
    assert notation(parse_notation(f"{text} visible 11")) == text


@pytest.mark.parametrize(
    ("pattern", "printed"),
    [
        ("road/minor", "road/minor"),
        ("straße/größe", "straße/größe"),
        ("a b", '"a b"'),
        ("a,b", '"a,b"'),
        ("a}b", '"a}b"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("a\nb", '"a\\nb"'),
        ("a\u200bb", '"a\\u200bb"'),
        (" ", '" "'),
        ("a•b", '"a•b"'),
        ("\\", "\\"),
    ],
)
def test_patterns_are_quoted_where_they_could_be_misread(pattern: str, printed: str) -> None:
    neighborhood = parse_descriptor(
        {"refs": [1], "stages": [{"cats": [pattern, "b"], "cond": "C"}]}
    )
    assert notation(neighborhood) == "({1},{" + printed + ",b},C)"
    assert parse_notation(notation(neighborhood)) == neighborhood


def test_a_bare_pattern_may_have_spaces_inside() -> None:
    assert parse_notation("({1},{ zone/old town , a(b);c },C)").stages[0].categories == (
        "zone/old town",
        "a(b);c",
    )


STAGE = "({1},{a},C)"


@pytest.mark.parametrize(
    ("text", "position", "stage", "expected"),
    [
        ("", 0, 1, "'(' of a stage"),
        ("road", 0, 1, "'(' of a stage"),
        ("(Prev,{a},C)", 1, 1, "references such as"),
        ("({},{a},C)", 2, 1, "a number"),
        ("({1,},{a},C)", 4, 1, "a number"),
        ("({1 2},{a},C)", 4, 1, "',' or '}'"),
        ("({-1},{a},C)", 2, 1, "a number"),
        ("({" + "9" * 30 + "},{a},C)", 2, 1, "a number of at most 20 digits"),
        ("({1}{a},C)", 4, 1, "','"),
        ("({1},a,C)", 5, 1, "category patterns such as"),
        ("({1},{},C)", 6, 1, "a category pattern such as"),
        ("({1},{a,},C)", 8, 1, "a category pattern such as"),
        ('({1},{"a},C)', 6, 1, "a text in double quotes"),
        ('({1},{a"b},C)', 7, 1, "',' or '}'"),
        ("({1},{a})", 8, 1, "','"),
        ("({1},{a},)", 9, 1, "a relation"),
        ("({1},{a},C AND)", 14, 1, "a relation"),
        ("({1},{a},C", 10, 1, "AND, OR or ')'"),
        (f"{STAGE} x", 12, 2, "'•', ';', visible or the end"),
        (f"{STAGE}{STAGE}", 11, 2, "'•', ';', visible or the end"),
        (f"{STAGE};", 12, 2, "'(' of a stage"),
        (f"{STAGE};3", 13, 2, "'(' of a stage"),
        (f"{STAGE};(Next,{{a}},C)", 13, 2, "Prev, Anc or stage numbers such as {2,3}"),
        (f"{STAGE};3(Prev,{{a}},C);(Prev,{{a}},Q)", 36, 5, "a relation"),
        (f"{STAGE} visible", 19, 2, "a 0 or 1 for each written-out stage"),
        (f"{STAGE} visible 1 1", 22, 2, "'•', ';', visible or the end"),
        ('"name" ({1},{a},C)', 7, 1, "':'"),
        ('"name', 0, 1, "a text in double quotes"),
    ],
)
def test_an_error_says_where_in_which_stage_and_what_instead(
    text: str, position: int, stage: int, expected: str
) -> None:
    with pytest.raises(NotationError) as caught:
        parse_notation(text)
    assert (caught.value.position, caught.value.stage) == (position, stage)
    assert str(caught.value).startswith(
        f"stage {stage}: at character {position + 1}: expected {expected}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"2{STAGE}", "^stage 1: repeat is not allowed in stage 1"),
        (f"{STAGE};0(Prev,{{a}},C)", "^stage 2: repeat is 0; allowed: an integer of at least 1"),
        (f"{STAGE};99999999999(Prev,{{a}},C)", "^stage 2: with repeat 99999999999 there are"),
        (f"{STAGE};({{2}},{{a}},C)", "^stage 2: refStages has 2; allowed"),
        ("({9223372036854775808},{a},C)", "^stage 1: refs has 9223372036854775808"),
        (f"{STAGE} visible 11", "^stage 2: visible has 2 values"),
        (f"{STAGE} visible 0", "visible shows none of the stages"),
        ("({1},{a+},C)", "^stage 1: the category pattern 'a\\+' is wrong"),
        ('({1},{""},C)', "^stage 1: the category pattern '' is empty"),
        ("({1},{/},C)", "^stage 1: the category pattern '/' is empty"),
        ("({1},{a\0},C)", r"^stage 1: a category pattern has the character U\+0000"),
        (" " * MAX_NOTATION_CHARACTERS + STAGE, "characters; allowed: at most 262140"),
    ],
)
def test_the_rules_of_the_descriptor_hold(text: str, message: str) -> None:
    with pytest.raises(DescriptorError, match=message):
        parse_notation(text)


def test_the_limit_in_bytes_is_that_of_the_descriptor() -> None:
    longest = 65_535 - len('{"refs":[1],"stages":[{"cats":[""],"cond":"C"}]}')
    assert parse_notation("({1},{" + "a" * longest + "},C)").refs == (1,)
    with pytest.raises(DescriptorError, match="the descriptor has 65536 bytes"):
        parse_notation("({1},{" + "a" * (longest + 1) + "},C)")


def test_the_first_character_decides_how_a_text_is_read() -> None:
    assert read_neighborhood('\n {"refs":[1],"stages":[{"cats":["a"],"cond":"C"}]}') == (
        read_neighborhood(f"\n {STAGE}")
    )
    with pytest.raises(DescriptorError, match="not JSON"):
        read_neighborhood("{1},{a},C")
    with pytest.raises(NotationError):
        read_neighborhood("[1]")
