"""One text for all descriptors that mean the same by the way they are written, and its hash.

Left behind: the name, order and repetition of refs, patterns, stage numbers and operands,
``repeat``, ``Prev`` and ``Anc``, names and symbols of a condition, its parentheses and where
its NOTs stand. Every stage stays, the invisible ones too, so a result that was kept under the
hash can be shown stage by stage for any of these descriptors.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Final, NamedTuple

from schemas.language.condition_printer import leaf_text
from schemas.language.conditions import And, Condition, Not, Or, Topological
from schemas.language.neighborhood import Neighborhood, explicit_ref_stages

# Disjoint is defined as not Intersects.
_OPPOSITES: Final = {"D": "I", "I": "D"}


def canonical(neighborhood: Neighborhood) -> str:
    """The canonical text; two texts differ whenever the two neighborhoods can."""
    stages: list[list[object]] = []
    for stage in neighborhood.stages:
        categories = sorted(set(stage.categories))
        condition = canonical_condition(stage.condition)
        for _ in range(stage.repeat):
            number = len(stages) + 1
            ref_stages = sorted(set(explicit_ref_stages(stage.ref_stages, number)))
            shown = int(neighborhood.visible[number - 1])
            stages.append([ref_stages, categories, condition, shown])
    parts = [sorted(set(neighborhood.refs)), stages]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def neighborhood_hash(neighborhood: Neighborhood) -> str:
    """SHA-256 of the canonical text, in hexadecimal: the same in every process and version."""
    return sha256(canonical(neighborhood).encode()).hexdigest()


def canonical_condition(condition: Condition) -> str:
    """The condition in prefix form: NOT at the relations, operands sorted and each once."""
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
            # De Morgan: what is denied as a whole is denied in each part, AND for OR.
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
