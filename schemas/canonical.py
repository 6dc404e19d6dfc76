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
from schemas.neighborhood import Neighborhood


def canonical(neighborhood: Neighborhood) -> str:
    """The canonical text; two texts differ whenever the two neighborhoods can."""
    stages = [
        [
            sorted(set(stage.ref_stages)),
            sorted(set(stage.categories)),
            canonical_condition(stage.condition),
            int(visible),
        ]
        for stage, visible in zip(neighborhood.written_out(), neighborhood.visible, strict=True)
    ]
    parts = [sorted(set(neighborhood.refs)), stages]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def neighborhood_hash(neighborhood: Neighborhood) -> str:
    """SHA-256 of the canonical text, in hexadecimal: the same in every process and version."""
    return sha256(canonical(neighborhood).encode()).hexdigest()


def canonical_condition(condition: Condition) -> str:
    """The condition in prefix form, its operands sorted and each once."""
    return _prefix(negations_at_leaves(condition))


def _prefix(condition: Condition) -> str:
    match condition:
        case Not(operand):
            return f"!{_prefix(operand)}"
        case And(operands) | Or(operands):
            texts = sorted({_prefix(operand) for operand in operands})
            if len(texts) == 1:
                return texts[0]
            return f"{'&' if isinstance(condition, And) else '|'}({' '.join(texts)})"
        case _:
            return leaf_text(condition)
