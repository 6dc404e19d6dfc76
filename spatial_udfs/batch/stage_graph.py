"""Neighborhoods taken apart into nodes, so that what two of them share is resolved once.

A node is one set of entities: the references of a neighborhood (level 0), or the members of a
stage. Its number is a hash of what defines it: the nodes that it refers to, its categories, its
condition. Equal neighborhoods have equal nodes, and so have equal beginnings of different ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from schemas.errors import SpapsError
from schemas.language.conditions import Condition, condition_text
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.explain import neighborhood_warnings
from schemas.language.neighborhood import Neighborhood, Stage, WrittenStage, canonical_condition
from schemas.language.references import named_texts
from spatial_udfs.place_geometries import check_places

# Two rows of one NODE that differ in their PROOF are two different nodes.
LEVEL: Final = "level"
# Nodes whose members are references.
REFERRED: Final = "referred"
# For each of them, whether it can give anything new and must be joined.
JOINED: Final = "joined"
# The patterns as one text, so that equal ones are found without taking lists apart.
PATTERNS: Final = "patterns"


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A written-out stage with its place in the graph; numbers are stages, 0 the references."""

    level: int
    referred: tuple[int, ...]
    joined: tuple[int, ...]
    patterns: str
    condition: str
    identity: bytes


def patterns_text(patterns: Iterable[str]) -> str:
    """Return a set of patterns as text, equal sets as equal texts."""
    return json.dumps(sorted(set(patterns)))


def graph_of(text: str, salt: int = 0) -> tuple[Any, ...]:
    """Return error or None, warnings, base, references, nodes, shown nodes, named references.

    The base is the node of the references: number and proof. A node has number, proof, level,
    REFERRED, JOINED, PATTERNS, condition; a shown one number and stage. Named references are keys,
    names and places, as ``named_texts`` has them.
    ``salt`` changes all numbers, in case two different nodes get the same number.
    """
    try:
        neighborhood = parse_descriptor(text)
        check_places(neighborhood)
    except SpapsError as error:
        return (str(error), [], None, [], [], [], [])
    plans, warnings = _plans(neighborhood.stages)
    refs = sorted(set(neighborhood.refs))
    named = named_texts(neighborhood)
    base = _numbers(salt, b"refs", [*refs, *map(repr, named)])
    numbers = [base[0]]
    nodes = []
    for plan in plans:
        edges = _edges(plan, numbers)
        referred = [source for source, _ in edges]
        number, proof = _numbers(salt, plan.identity, referred)
        numbers.append(number)
        nodes.append(
            (number, proof, plan.level,
             referred, [joined for _, joined in edges], plan.patterns, plan.condition)
        )  # fmt: skip
    shown = [
        (numbers[stage], stage)
        for stage, visible in enumerate(neighborhood.visible, start=1)
        if visible
    ]
    return (None, list(warnings), base, refs, nodes, shown, named)


def _edges(plan: StagePlan, numbers: list[int]) -> list[tuple[int, bool]]:
    """Return the nodes that the stage refers to, each once, and whether it must be joined."""
    joined = {numbers[stage] for stage in plan.joined}
    return sorted({(numbers[stage], numbers[stage] in joined) for stage in plan.referred})


def _numbers(salt: int, identity: bytes, parts: Sequence[int | str]) -> tuple[int, int]:
    """Return a number of 63 bits and its proof."""
    content = b"%d:%b" % (len(identity), identity) + ",".join(map(str, parts)).encode()
    digest = blake2b(content, digest_size=16, salt=salt.to_bytes(8, "big")).digest()
    return int.from_bytes(digest[:8], "big") >> 1, int.from_bytes(digest[8:], "big") >> 1


@lru_cache(maxsize=4096)
def _plans(stages: tuple[Stage, ...]) -> tuple[tuple[StagePlan, ...], tuple[str, ...]]:
    """Return the plans and warnings of the stages, which do not depend on the references."""
    anything = Neighborhood(refs=(0,), stages=stages, visible=())
    written = anything.written_out()
    levels = [0]
    plans = []
    for stage in written:
        levels.append(1 + max(levels[number] for number in stage.ref_stages))
        plans.append(
            StagePlan(
                level=levels[-1],
                referred=stage.ref_stages,
                joined=_joined(stage, written),
                patterns=patterns_text(stage.categories),
                condition=condition_text(stage.condition),
                identity=_identity(stage.categories, stage.condition),
            )
        )
    return tuple(plans), neighborhood_warnings(anything)


def _identity(categories: Iterable[str], condition: Condition) -> bytes:
    patterns = sorted(set(categories))
    return repr((patterns, canonical_condition(condition))).encode()


def _joined(stage: WrittenStage, written: tuple[WrittenStage, ...]) -> tuple[int, ...]:
    """Return the stages whose members must be joined: those that no earlier stage has used up."""
    spent = {
        number
        for earlier in written[: stage.number - 1]
        if _spent(stage, earlier)
        for number in earlier.ref_stages
    }
    return tuple(number for number in stage.ref_stages if number not in spent)


def _spent(stage: WrittenStage, earlier: WrittenStage) -> bool:
    """Return whether the references of ``earlier`` can give nothing new in ``stage``.

    Every entity that is related to them is a member of ``earlier`` or was a reference there. If
    all these are references now, ``stage`` excludes them.
    """
    return (
        earlier.condition == stage.condition
        and set(stage.categories) <= set(earlier.categories)
        and earlier.number in stage.ref_stages
        and set(earlier.ref_stages) <= set(stage.ref_stages)
    )
