"""Neighborhoods in plain English."""

from __future__ import annotations

import pytest

from schemas.language.explain import explain, in_words
from schemas.language.notation import parse_notation
from schemas.topology.relations import LONG_NAMES

EXAMPLE = "({4711},{road/#},C) • 3(Prev,{road/#},T) • ({2,3,4},{transport/parking},T) visible 00001"


def test_the_example_of_the_contract_in_words() -> None:
    assert explain(parse_notation(EXAMPLE)) == [
        "Stage 1 (not shown): entities in road or below that lie inside entity 4711.",
        (
            "Stages 2 to 4 (not shown): entities in road or below that touch a member of any"
            " earlier stage."
        ),
        "Stage 5: entities in transport/parking that touch a member of stages 2 to 4.",
        "A reference of a stage is never a member of that stage.",
    ]
    assert in_words(parse_notation(EXAMPLE)) == (
        "entities in road or below that lie inside entity 4711 (not shown); then 3 times entities"
        " in road or below that touch a member of any earlier stage (not shown); then entities in"
        " transport/parking that touch a member of stages 2 to 4"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("({1},{a},C AND B)", "entities in a that lie inside entity 1 and meet its border"),
        (
            "({1,2},{a,b/#,c d},T)",
            'entities in a, b or below or "c d" that touch one of the entities 1 and 2',
        ),
        (
            "({1,2,3,4,5,6,7},{#,a},D)",
            (
                "entities of any category that share no point with at least one of the entities"
                " 1, 2, 3, 4, 5 and 2 more"
            ),
        ),
        ("({1},{a},NOT I)", "entities in a that share no point with entity 1"),
        ("({1},{a},NOT DW0.5)", "entities in a that are more than 0.5 m from entity 1"),
        (
            "({1},{a},DW500 AND NOT (T OR X))",
            (
                "entities in a that are at most 500 m from entity 1 and do not touch it"
                " and do not cross it"
            ),
        ),
        (
            "({1},{a},(T OR X) AND NOT (C AND W))",
            (
                "entities in a that (touch entity 1 or cross it) and (do not lie inside it"
                " or do not contain it)"
            ),
        ),
        (
            "({1},{a},Relate(T********))",
            "entities in a that fit the DE-9IM mask T******** seen from entity 1",
        ),
    ],
)
def test_one_stage_in_words(text: str, words: str) -> None:
    assert in_words(parse_notation(text)) == words


@pytest.mark.parametrize(
    ("stage", "source"),
    [
        ("(Prev,{a},T)", "a member of stages 1 to 3"),
        ("(Anc,{a},T)", "a member of stage 3"),
        ("2(Anc,{a},T)", "a member of the stage before"),
        ("({1,3},{a},T)", "a member of stage 1 or 3"),
        ("({2,3},{a},NOT T)", "at least one member of stage 2 or 3"),
    ],
)
def test_where_references_come_from(stage: str, source: str) -> None:
    first_three = "({1},{a},C);(Prev,{a},C);(Prev,{a},C);"
    assert explain(parse_notation(first_three + stage))[3].endswith(f" {source}.")


def test_a_repeated_stage_of_which_some_copies_are_shown() -> None:
    sentences = explain(parse_notation("({1},{a},C);3(Anc,{a},T) visible 0101"))
    assert sentences[1].startswith("Stages 2 to 4 (shown: 2 and 4): ")


def test_every_relation_and_its_negation_has_words_of_its_own() -> None:
    words = {in_words(parse_notation(f"({{1}},{{a}},{short})")) for short in LONG_NAMES}
    words |= {in_words(parse_notation(f"({{1}},{{a}},NOT {short})")) for short in LONG_NAMES}
    assert len(words) == 2 * len(LONG_NAMES) - 2  # NOT I is D, NOT D is I
