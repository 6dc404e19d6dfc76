"""Conditions with every NOT at a relation: what the canonical form starts from."""

from __future__ import annotations

from schemas.conditions import And, Condition, Not, Or, Topological

_OPPOSITES = {"D": Topological("I"), "I": Topological("D")}


def negations_at_leaves(condition: Condition, *, negated: bool = False) -> Condition:
    """The same truth with NOT moved inwards by De Morgan's laws, and flat AND and OR.

    Disjoint is defined as not Intersects, so the two never stand under a NOT.
    """
    match condition:
        case Not(operand):
            return negations_at_leaves(operand, negated=not negated)
        case And(operands) | Or(operands):
            kind = And if isinstance(condition, And) != negated else Or
            flat: list[Condition] = []
            for operand in operands:
                inner = negations_at_leaves(operand, negated=negated)
                flat.extend(inner.operands if isinstance(inner, kind) else (inner,))
            return kind(tuple(flat))
        case Topological(short) if negated and short in _OPPOSITES:
            return _OPPOSITES[short]
        case _:
            return Not(condition) if negated else condition
