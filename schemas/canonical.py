"""One text for all descriptors that mean the same by the way they are written, and its hash.

Left behind: the name, order and repetition of refs, patterns, stage numbers and operands,
``repeat``, ``Prev`` and ``Anc``, names and symbols of a condition, its parentheses and where
its NOTs stand. Every stage stays, the invisible ones too, so a result that was kept under the
hash can be shown stage by stage for any of these descriptors.
"""

from __future__ import annotations

import json
from hashlib import sha256

from schemas.condition_normal_form import negations_at_leaves
from schemas.condition_printer import leaf_text
from schemas.conditions import And, Condition, Not, Or
from schemas.neighborhood import Neighborhood, explicit_ref_stages


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
    """The condition in prefix form, its operands sorted and each once."""
    return _prefix(_sorted_once(negations_at_leaves(condition)))


def _sorted_once(condition: Condition) -> Condition:
    """Operands sorted by their text and each once; an AND or OR of one is that one.

    What remains of an operand can be of its parent's kind, so it is made flat after that.
    """
    if not isinstance(condition, And | Or):
        return condition
    kind = type(condition)
    once: dict[str, Condition] = {}
    for operand in condition.operands:
        inner = _sorted_once(operand)
        for part in inner.operands if isinstance(inner, kind) else (inner,):
            once[_prefix(part)] = part
    operands = tuple(once[text] for text in sorted(once))
    return operands[0] if len(operands) == 1 else kind(operands)


def _prefix(condition: Condition) -> str:
    match condition:
        case Not(operand):
            return f"!{_prefix(operand)}"
        case And(operands) | Or(operands):
            sign = "&" if isinstance(condition, And) else "|"
            return f"{sign}({' '.join(_prefix(operand) for operand in operands)})"
        case _:
            return leaf_text(condition)
