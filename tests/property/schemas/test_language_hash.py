"""The hash sees what a neighborhood means and nothing of how it is written."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.language.conditions import (
    And,
    Condition,
    Leaf,
    Not,
    Or,
    Topological,
    WithinDistance,
    fold,
    leaf_text,
)
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.neighborhood import (
    Neighborhood,
    WrittenStage,
    canonical,
    canonical_condition,
    neighborhood_hash,
)
from schemas.language.notation import parse_notation
from schemas.topology.relations import LONG_NAMES
from tests.strategies.language import conditions, neighborhoods, patterns

Choice = TypeVar("Choice")

SEEDS = st.integers(0, 2**32)


class Rewriter:
    """Writes a neighborhood down in one of the many ways that mean the same."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  no secret is made here

    def descriptor(self, neighborhood: Neighborhood) -> dict[str, Any]:
        stages: list[dict[str, Any]] = []
        written = list(neighborhood.written_out())
        for stage in neighborhood.stages:
            copies, written = written[: stage.repeat], written[stage.repeat :]
            if stage.ref_stages is None:
                entries: list[dict[str, Any]] = [{}]
            elif self._chance():
                entries = [{"refStages": self._kept(stage.ref_stages), "repeat": stage.repeat}]
            else:
                entries = [{"refStages": self._shuffled(copy.ref_stages)} for copy in copies]
            for entry in entries:
                entry["cats"] = [p + self._pick("", "/") for p in self._shuffled(stage.categories)]
                entry["cond"] = self.condition(stage.condition)
            stages += entries
        return {
            "name": self._pick("a", "b"),
            "refs": self._references(neighborhood),
            "stages": stages,
            "visible": list(neighborhood.visible),
        }

    def _references(self, neighborhood: Neighborhood) -> list[Any]:
        refs: list[Any] = [ref if self._chance() else str(ref) for ref in neighborhood.refs]
        refs += [{"key": self._pick(key, f" {key} ")} for key in neighborhood.keys]
        refs += [{"name": name} for name in neighborhood.names]
        for place in neighborhood.places:
            wkt = self._pick(place, place.lower(), place.replace("(", " ( ").replace(",", " , "))
            refs.append({"at": wkt})
        return self._shuffled(tuple(refs))

    def condition(self, condition: Condition, depth: int = 0) -> str:
        text = self._condition(condition, depth)
        if depth < 8 and self._random.random() < 0.2:
            return self._pick(f"NOT (NOT ({text}))", f"({text})", f"({text} OR {text})")
        return text

    def _condition(self, condition: Condition, depth: int) -> str:
        match condition:
            case Not(And(operands) | Or(operands) as inner) if self._chance():
                kind = Or if isinstance(inner, And) else And
                return self._condition(kind(tuple(Not(operand) for operand in operands)), depth)
            case Not(Topological("I")) if self._chance():
                return "D"
            case Not(operand):
                return (
                    f"{self._pick('NOT ', 'not ', '¬', '!')}({self.condition(operand, depth + 1)})"
                )
            case And(operands) | Or(operands):
                words = ("AND", "and", "∧", "&") if isinstance(condition, And) else ("OR", "|")
                parts = [self.condition(part, depth + 1) for part in self._shuffled(operands)]
                return f" {self._pick(*words)} ".join(f"({part})" for part in parts)
            case _:
                return self._leaf(condition)

    def _leaf(self, leaf: Leaf) -> str:
        text = leaf_text(leaf)
        match leaf:
            case Topological(short):
                return self._pick(text, LONG_NAMES[short], LONG_NAMES[short].lower())
            case WithinDistance():
                return self._pick(text, "WD" + text[2:], f"DWithin({text[2:]})")
            case _:
                return text

    def _kept(self, ref_stages: Any) -> Any:
        return ref_stages if isinstance(ref_stages, str) else self._shuffled(ref_stages)

    def _shuffled(self, items: tuple[Any, ...]) -> list[Any]:
        """In another order, some of them twice."""
        twice = [item for item in items if self._random.random() < 0.2]
        mixed = [*items, *twice]
        self._random.shuffle(mixed)
        return mixed

    def _pick(self, *choices: Choice) -> Choice:
        return self._random.choice(choices)

    def _chance(self) -> bool:
        return self._random.random() < 0.5


@given(neighborhoods(), SEEDS)
def test_the_way_of_writing_does_not_change_the_hash(original: Neighborhood, seed: int) -> None:
    rewritten = parse_descriptor(Rewriter(seed).descriptor(original))
    assert meaning(rewritten, seed) == meaning(original, seed)  # the rewriter itself is right
    assert canonical(rewritten) == canonical(original)
    assert neighborhood_hash(rewritten) == neighborhood_hash(original)


@given(neighborhoods(), st.data(), SEEDS)
def test_equal_texts_have_equal_meaning(one: Neighborhood, data: st.DataObject, seed: int) -> None:
    # Differing in one place is harder to tell apart than differing everywhere.
    place = data.draw(st.integers(0, len(one.stages) - 1))
    stage = one.stages[place]
    changed = data.draw(
        st.one_of(
            conditions().map(lambda condition: replace(stage, condition=condition)),
            patterns().map(lambda pattern: replace(stage, categories=(pattern,))),
        )
    )
    other = replace(one, stages=(*one.stages[:place], changed, *one.stages[place + 1 :]))
    if meaning(other, seed) != meaning(one, seed):
        assert canonical(other) != canonical(one)


@given(conditions(), conditions(), SEEDS)
def test_conditions_of_different_truth_have_different_texts(
    one: Condition, other: Condition, seed: int
) -> None:
    for changed in (Not(one), And((one, other)), Or((one, other)), other):
        if truth(changed, seed) != truth(one, seed):
            assert canonical_condition(changed) != canonical_condition(one)


BASE = "({1,2},{a,b/#},C AND DW5) ; (Prev,{a},T) ; (Anc,{a},T OR X) visible 011"


@pytest.mark.parametrize(
    "other",
    [
        BASE.replace("{1,2}", "{1}"),
        BASE.replace("{1,2}", "{12}"),
        BASE.replace("{a,b/#}", "{a,b}"),
        BASE.replace("{a,b/#}", '{"a,b/#"}'),
        BASE.replace("{a,b/#}", '{"a\\",\\"b/#"}'),
        BASE.replace("C AND DW5", "C OR DW5"),
        BASE.replace("DW5", "DW5.5"),
        BASE.replace("C AND", "W AND"),
        BASE.replace("C AND", "NOT C AND"),
        BASE.replace("T OR X", "T AND X"),
        BASE.replace("Prev", "Anc").replace("(Anc,{a},T OR X)", "(Prev,{a},T OR X)"),
        BASE.replace("011", "111"),
        BASE.replace("011", "001"),
        BASE.replace(" ; (Anc,{a},T OR X) visible 011", " visible 01"),
        "({1,2},{a,b/#},C AND DW5) ; (Prev,{a},T OR X) ; (Anc,{a},T) visible 011",
    ],
)
def test_another_meaning_has_another_hash(other: str) -> None:
    assert neighborhood_hash(parse_notation(other)) != neighborhood_hash(parse_notation(BASE))


@pytest.mark.parametrize(
    "other",
    [
        BASE.replace("{1,2}", "{2,1,2}"),
        BASE.replace("{a,b/#}", "{b/#/,a,a}"),
        BASE.replace("C AND DW5", "wd5 & contains".replace("wd", "WD")),
        BASE.replace("C AND DW5", "NOT (NOT C OR NOT DWithin(5.0))"),
        BASE.replace("C AND DW5", "(C AND DW5 OR DW5 AND C) AND (C)"),
        BASE.replace("Prev", "{1}").replace("Anc", "{2}"),
        f'"a name": {BASE}',
    ],
)
def test_the_same_meaning_has_the_same_hash(other: str) -> None:
    assert neighborhood_hash(parse_notation(other)) == neighborhood_hash(parse_notation(BASE))


def test_what_remains_of_an_operand_is_made_flat() -> None:
    flat = parse_notation("({1},{a},C AND T AND B)")
    nested = parse_notation("({1},{a},(C AND T OR T AND C) AND B)")
    assert canonical(nested) == canonical(flat)


def test_repeat_written_out_is_the_same() -> None:
    short = parse_notation("({1},{a},C) ; 2(Prev,{a},T)")
    long = parse_notation("({1},{a},C) ; ({1},{a},T) ; ({2,1},{a},T) visible 111")
    assert neighborhood_hash(short) == neighborhood_hash(long)


def test_the_hash_never_changes() -> None:
    """Hashes are kept in tables: another Python, process or release must give the same."""
    assert canonical(parse_notation(BASE)) == (
        '[[1,2],[[[0],["a","b/#"],"&(C DW5)",0],[[1],["a"],"T",1],[[2],["a"],"|(T X)",1]]]'
    )
    assert (
        neighborhood_hash(parse_notation(BASE))
        == "f19176f380e6310b23db9f7aaea3b8defcac35295caa0d6975e55cf25d0d8b76"
    )


def meaning(neighborhood: Neighborhood, seed: int) -> object:
    """All that resolving can depend on, worked out without the canonical form."""
    return (
        set(neighborhood.refs),
        set(neighborhood.keys),
        set(neighborhood.names),
        set(neighborhood.places),
        neighborhood.visible,
        [_stage_meaning(stage, seed) for stage in neighborhood.written_out()],
    )


def _stage_meaning(stage: WrittenStage, seed: int) -> object:
    return stage.number, set(stage.ref_stages), set(stage.categories), truth(stage.condition, seed)


def truth(condition: Condition, seed: int) -> int:
    """The condition on 64 imagined pairs, each relation drawn at random, D as not I."""
    everywhere = 2**64 - 1

    def drawn(leaf: Leaf) -> int:
        if leaf == Topological("D"):
            return everywhere ^ drawn(Topological("I"))
        return random.Random(f"{seed} {leaf}").getrandbits(64)  # noqa: S311

    return fold(condition, drawn, everywhere.__xor__, int.__and__, int.__or__)
