"""Explains a neighborhood in sentences, and warns about stages that can select nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from schemas.language.conditions import (
    And,
    Condition,
    Leaf,
    Not,
    Or,
    Relate,
    Topological,
    WithinDistance,
    condition_text,
    distance_text,
)
from schemas.language.neighborhood import Neighborhood, Stage, explicit_ref_stages
from schemas.language.notation import pattern_text
from schemas.language.references import Referent, listed, references_in_words, referents
from schemas.topology.satisfiability import unsatisfiable

# Relation -> the phrase for the relation of entities to the reference, and for its negation.
_PHRASES: Final = {
    "E": ("cover the same points as {}", "do not cover the same points as {}"),
    "I": ("share a point with {}", "share no point with {}"),
    "D": ("share no point with {}", "share a point with {}"),
    "T": ("touch {}", "do not touch {}"),
    "C": ("lie inside {}", "do not lie inside {}"),
    "W": ("contain {}", "do not contain {}"),
    "CV": ("are covered by {}", "are not covered by {}"),
    "CB": ("cover {}", "do not cover {}"),
    "X": ("cross {}", "do not cross {}"),
    "O": ("overlap {}", "do not overlap {}"),
    "B": ("meet the border of {}", "do not meet the border of {}"),
}


def explain(neighborhood: Neighborhood, names: Mapping[int, str] | None = None) -> list[str]:
    """Return one sentence for each stage as typed, and one about all stages.

    ``names`` are known names of references.
    """
    sentences: list[str] = []
    refs = referents(neighborhood, names)
    for stage, copies in neighborhood.numbered_stages():
        heading = _stages(copies).capitalize()
        shown = _shown_note(copies, neighborhood.visible)
        sentences.append(f"{heading}{shown}: {_selection(stage, copies[0], refs)}.")
    sentences.append("A reference of a stage is never a member of that stage.")
    return sentences


def in_words(neighborhood: Neighborhood, names: Mapping[int, str] | None = None) -> str:
    """Return the whole neighborhood in one line; ``names`` are known names of references."""
    steps: list[str] = []
    refs = referents(neighborhood, names)
    for stage, copies in neighborhood.numbered_stages():
        times = f"{stage.repeat} times " if stage.repeat > 1 else ""
        shown = _shown_note(copies, neighborhood.visible)
        steps.append(f"{times}{_selection(stage, copies[0], refs)}{shown}")
    return "; then ".join(steps)


def stage_words(neighborhood: Neighborhood, names: Mapping[int, str] | None = None) -> list[str]:
    """Return what each written-out stage selects, without its number, for legends and tables."""
    refs = referents(neighborhood, names)
    return [
        words
        for stage, copies in neighborhood.numbered_stages()
        for words in [_selection(stage, copies[0], refs)] * stage.repeat
    ]


def _to(numbers: Sequence[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}"


def _shown_note(copies: range, visible: Sequence[bool]) -> str:
    shown = [copy for copy in copies if visible[copy - 1]]
    if len(shown) == len(copies):
        return ""
    return f" (shown: {listed(shown, 'and')})" if shown else " (not shown)"


def _selection(stage: Stage, number: int, refs: tuple[Referent, ...]) -> str:
    reference = _reference(stage, number, refs, one_of_them=_denies(stage.condition))
    return f"{_categories(stage.categories)} that {_Wording(reference).of(stage.condition)}"


def _denies(condition: Condition, *, negated: bool = False) -> bool:
    """Return whether the condition negates anything: "a member" could then mean "any member"."""
    match condition:
        case Not(operand):
            return _denies(operand, negated=not negated)
        case And(operands) | Or(operands):
            return any(_denies(operand, negated=negated) for operand in operands)
        case _:
            return negated != (condition == Topological("D"))


def _reference(stage: Stage, number: int, refs: tuple[Referent, ...], one_of_them: bool) -> str:
    at_least = "at least " if one_of_them else ""
    match stage.ref_stages:
        case None:
            return references_in_words(refs, at_least)
        case "Prev" if stage.repeat > 1:
            source = "any earlier stage"
        case "Anc" if stage.repeat > 1:
            source = "the stage before"
        case "Prev":
            source = _stage_list(range(1, number))
        case "Anc":
            source = _stage_list((number - 1,))
        case _:
            source = _stage_list(stage.ref_stages)
    return f"{at_least}{'one' if one_of_them else 'a'} member of {source}"


def _stage_list(numbers: Sequence[int]) -> str:
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"stages {_to(numbers)}"
    return f"stage {listed(numbers, 'or')}"


def _categories(patterns: tuple[str, ...]) -> str:
    if "#" in patterns:
        return "entities of any category"
    texts = [
        f"{pattern_text(pattern.removesuffix('/#'))} or below"
        if pattern.endswith("/#")
        else pattern_text(pattern)
        for pattern in patterns
    ]
    return f"entities in {listed(texts, 'or')}"


class _Wording:
    """Words a condition: names the reference once, then calls it "it".

    All parts of a condition are about the same reference.
    """

    def __init__(self, reference: str) -> None:
        self._reference = reference

    def of(self, condition: Condition, *, negated: bool = False, inside: str = "") -> str:
        """Return the words; a joint other than the outer one (``inside``) needs parentheses."""
        match condition:
            case Not(operand):
                return self.of(operand, negated=not negated, inside=inside)
            case And(operands) | Or(operands):
                joint = "and" if isinstance(condition, And) != negated else "or"
                words = [self.of(part, negated=negated, inside=joint) for part in operands]
                text = f" {joint} ".join(words)
                return text if inside in ("", joint) else f"({text})"
            case _:
                return self._phrase(condition, negated)

    def _phrase(self, leaf: Leaf, negated: bool) -> str:
        match leaf:
            case Topological(short):
                phrase = _PHRASES[short][negated]
            case WithinDistance(metres):
                far = "more than" if negated else "at most"
                phrase = f"are {far} {distance_text(metres)} m from {{}}"
            case Relate(mask):
                fit = "do not fit" if negated else "fit"
                phrase = f"{fit} the DE-9IM mask {mask} seen from {{}}"
        reference, self._reference = self._reference, "it"
        return phrase.format(reference).replace("the border of it", "its border")


def neighborhood_warnings(neighborhood: Neighborhood) -> tuple[str, ...]:
    """Return one line with the reason for each stage as typed that is empty in every world."""
    warnings: list[str] = []
    always_empty: set[int] = set()
    for stage, copies in neighborhood.numbered_stages():
        hopeless = unsatisfiable(stage.condition)
        empty = [
            copy
            for copy in copies
            if hopeless or always_empty.issuperset(explicit_ref_stages(stage.ref_stages, copy))
        ]
        always_empty.update(empty)
        if hopeless:
            warnings.append(f"{_stages(copies)}: {_hopeless(stage.condition)}")
        elif empty:
            warnings.append(f"{_stages(copies)}: always empty, because every stage it refers to is")
    return tuple(warnings)


def _stages(copies: range) -> str:
    return f"stage {copies[0]}" if len(copies) == 1 else f"stages {_to(copies)}"


def _hopeless(condition: Condition) -> str:
    text = f"always empty, because no pair of geometries can satisfy {condition_text(condition)}"
    meant = _with_border(condition)
    if meant != condition and not unsatisfiable(meant):
        text += f" (T excludes common interior points; {condition_text(meant)} does not)"
    return text


def _with_border(condition: Condition) -> Condition:
    """Return the condition with B for T: "inside and touching" means "at the border"."""
    match condition:
        case Topological("T"):
            return Topological("B")
        case Not(operand):
            return Not(_with_border(operand))
        case And(operands):
            return And(tuple(_with_border(operand) for operand in operands))
        case Or(operands):
            return Or(tuple(_with_border(operand) for operand in operands))
        case _:
            return condition
