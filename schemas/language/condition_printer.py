"""Conditions as text: short names and no parenthesis that is not needed."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple

from schemas.language.conditions import (
    And,
    Condition,
    Leaf,
    Not,
    Or,
    Relate,
    Topological,
    WithinDistance,
)

# How tightly each kind of node binds; an operand that binds less than its parent needs "( )".
_OR, _AND, _NOT = range(3)


class _Words(NamedTuple):
    negation: str
    conjunction: str
    alternative: str


_IN_WORDS: Final = _Words("NOT ", " AND ", " OR ")
_IN_SYMBOLS: Final = _Words("!", "&", "|")


def condition_text(condition: Condition, *, symbols: bool = False) -> str:
    """The condition as a person would write it; with ``symbols`` as short as it can be."""
    return _text(condition, _IN_SYMBOLS if symbols else _IN_WORDS, _OR)


def _text(condition: Condition, words: _Words, binding: int) -> str:
    match condition:
        case Not(operand):
            return words.negation + _text(operand, words, _NOT)
        case And(operands):
            text = words.conjunction.join(_text(operand, words, _AND) for operand in operands)
            return f"({text})" if binding > _AND else text
        case Or(operands):
            text = words.alternative.join(_text(operand, words, _OR) for operand in operands)
            return f"({text})" if binding > _OR else text
        case _:
            return leaf_text(condition)


def leaf_text(leaf: Leaf) -> str:
    """One relation by its short name."""
    match leaf:
        case Topological(short):
            return short
        case WithinDistance(metres):
            return f"DW{distance_text(metres)}"
        case Relate(mask):
            return f"Relate({mask})"


def distance_text(metres: float) -> str:
    """The shortest decimal without exponent that reads back as the same number."""
    return str(int(metres)) if metres.is_integer() else format(Decimal(repr(metres)), "f")
