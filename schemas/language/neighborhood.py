"""The neighborhood as an object, read from JSON or from the compact notation.

The two readers (``descriptor_json``, ``notation``) make only valid objects. Engines use
``written_out()`` alone and never see ``repeat`` or ``Prev``.

``canonical`` returns the same text for descriptors that differ only in how they are written. It
ignores the name; order and repetition of refs, patterns, stage numbers and operands; ``repeat``,
``Prev`` and ``Anc``; words or symbols, parentheses and the position of NOTs in a condition. It has
every stage, also invisible ones, so a result saved under the hash can be shown stage by stage for
all of these descriptors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from schemas.language.conditions import (
    And,
    Condition,
    Not,
    Or,
    Topological,
    condition_text,
    leaf_text,
)
from schemas.language.limits import MAX_DESCRIPTOR_BYTES

RefStages: TypeAlias = Literal["Prev", "Anc"] | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage as typed; ``ref_stages`` is None in the first stage alone."""

    categories: tuple[str, ...]
    condition: Condition
    ref_stages: RefStages | None = None
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class WrittenStage:
    """One stage after writing out: ``number`` counts from 1, ``ref_stages`` is explicit.

    Stage 1 has ``ref_stages == (0,)``: stage 0 is the descriptor's refs.
    """

    number: int
    ref_stages: tuple[int, ...]
    categories: tuple[str, ...]
    condition: Condition


class References(NamedTuple):
    """The references of a neighborhood, each once, in the order written."""

    peids: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """References, stages and which written-out stages are visible.

    ``refs`` are peids. ``keys`` and ``names`` stand for entities of a world version and are
    replaced by their peids before anything is resolved, hashed or stored. ``places`` are WKT in
    canonical form (``schemas/language/places.py``).
    """

    refs: tuple[int, ...]
    stages: tuple[Stage, ...]
    visible: tuple[bool, ...]
    name: str | None = None
    keys: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    places: tuple[str, ...] = ()

    def numbered_stages(self) -> Iterator[tuple[Stage, range]]:
        """Yield each stage as typed, with the numbers of its written-out copies."""
        first = 1
        for stage in self.stages:
            yield stage, range(first, first + stage.repeat)
            first += stage.repeat

    def written_out(self) -> tuple[WrittenStage, ...]:
        """Return the stages with ``repeat``, ``Prev`` and ``Anc`` written out."""
        return tuple(
            WrittenStage(
                number=number,
                ref_stages=explicit_ref_stages(stage.ref_stages, number),
                categories=stage.categories,
                condition=stage.condition,
            )
            for stage, copies in self.numbered_stages()
            for number in copies
        )

    def to_object(self, *, symbols: bool = False) -> dict[str, Any]:
        """Return the descriptor as an object for JSON; defaults are left out.

        With ``symbols``, conditions have ``&`` for AND and so on, which is shortest.
        """
        stages: list[dict[str, Any]] = []
        for stage in self.stages:
            entry: dict[str, Any] = {}
            if stage.ref_stages is not None:
                explicit = isinstance(stage.ref_stages, tuple)
                entry["refStages"] = list(stage.ref_stages) if explicit else stage.ref_stages
            entry["cats"] = list(stage.categories)
            entry["cond"] = condition_text(stage.condition, symbols=symbols)
            if stage.repeat > 1:
                entry["repeat"] = stage.repeat
            stages.append(entry)
        descriptor: dict[str, Any] = {} if self.name is None else {"name": self.name}
        refs: list[Any] = [*self.refs]
        refs += [{"key": key} for key in self.keys]
        refs += [{"name": name} for name in self.names]
        refs += [{"at": place} for place in self.places]
        descriptor |= {"refs": refs, "stages": stages}
        if not all(self.visible):
            descriptor["visible"] = list(self.visible)
        return descriptor

    def to_json(self) -> str:
        """Return the descriptor as one line of JSON.

        If words such as AND make it longer than the limit, it has symbols instead. So every
        descriptor that could be read can be written.
        """
        text = _encoded(self.to_object())
        if len(text.encode()) > MAX_DESCRIPTOR_BYTES:
            return _encoded(self.to_object(symbols=True))
        return text


def _encoded(descriptor: dict[str, Any]) -> str:
    return json.dumps(descriptor, ensure_ascii=False, separators=(",", ":"))


def explicit_ref_stages(ref_stages: RefStages | None, number: int) -> tuple[int, ...]:
    """Return the stage numbers that ``Prev`` and ``Anc`` stand for in stage ``number``."""
    match ref_stages:
        case None:
            return (0,)
        case "Prev":
            return tuple(range(1, number))
        case "Anc":
            return (number - 1,)
        case _:
            return ref_stages


# Disjoint is defined as not Intersects.
_OPPOSITES: Final = {"D": "I", "I": "D"}


def canonical(neighborhood: Neighborhood) -> str:
    """Return the canonical text; neighborhoods that can differ in members have different texts."""
    stages: list[list[object]] = []
    for stage, copies in neighborhood.numbered_stages():
        categories = sorted(set(stage.categories))
        condition = canonical_condition(stage.condition)
        for number in copies:
            ref_stages = sorted(set(explicit_ref_stages(stage.ref_stages, number)))
            shown = int(neighborhood.visible[number - 1])
            stages.append([ref_stages, categories, condition, shown])
    refs: list[object] = [*sorted(set(neighborhood.refs))]
    for kind in ("keys", "names", "places"):
        written = getattr(neighborhood, kind)
        refs += [[kind, text] for text in sorted(set(written))]
    parts = [refs, stages]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def neighborhood_hash(neighborhood: Neighborhood) -> str:
    """Return the SHA-256 of the canonical text in hexadecimal, the same in every process."""
    return sha256(canonical(neighborhood).encode()).hexdigest()


def canonical_condition(condition: Condition) -> str:
    """Return the condition in prefix form, NOT at the relations, operands sorted and unique."""
    return _form(condition, negated=False).text


class _Form(NamedTuple):
    """A canonical text and, for an AND or OR, its sign and its operands by their texts."""

    text: str
    sign: str
    operands: dict[str, _Form]


def _form(condition: Condition, *, negated: bool) -> _Form:
    match condition:
        case Not(operand):
            return _form(operand, negated=not negated)
        case And(operands) | Or(operands):
            # De Morgan: a negated AND is the OR of the negated operands, and the reverse.
            sign = "&" if isinstance(condition, And) != negated else "|"
            once: dict[str, _Form] = {}
            for operand in operands:
                inner = _form(operand, negated=negated)
                once.update(inner.operands if inner.sign == sign else {inner.text: inner})
            if len(once) == 1:
                return next(iter(once.values()))
            return _Form(f"{sign}({' '.join(sorted(once))})", sign, once)
        case Topological(short) if negated and short in _OPPOSITES:
            return _Form(_OPPOSITES[short], "", {})
        case _:
            return _Form(("!" if negated else "") + leaf_text(condition), "", {})
