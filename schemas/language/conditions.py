"""The condition tree (relations joined with AND, OR, NOT), and its text.

Both engines and the oracle of the tests use this tree. ``fold`` evaluates it with any kind of
value: a Boolean, a numpy array or a Spark column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple, TypeAlias, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Topological:
    """A named relation of the language, by its short name (``C``, ``T``, ``B``)."""

    short: str


@dataclass(frozen=True, slots=True)
class WithinDistance:
    """Distance of at most ``metres``, the limit included."""

    metres: float


@dataclass(frozen=True, slots=True)
class Relate:
    """The DE-9IM matrix of (reference, entity) fits ``mask`` (characters ``TF*012``)."""

    mask: str


@dataclass(frozen=True, slots=True)
class Not:
    """True if ``operand`` is false."""

    operand: Condition


@dataclass(frozen=True, slots=True)
class And:
    """True if all ``operands`` are true."""

    operands: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if any of ``operands`` is true."""

    operands: tuple[Condition, ...]


Leaf: TypeAlias = Topological | WithinDistance | Relate
Condition: TypeAlias = Leaf | Not | And | Or

# How tightly each kind of node binds; an operand that binds less than its parent needs "( )".
_OR, _AND, _NOT = range(3)


class _Words(NamedTuple):
    negation: str
    conjunction: str
    alternative: str


_IN_WORDS: Final = _Words("NOT ", " AND ", " OR ")
_IN_SYMBOLS: Final = _Words("!", "&", "|")


def fold(
    condition: Condition,
    leaf: Callable[[Leaf], Value],
    negate: Callable[[Value], Value],
    both: Callable[[Value, Value], Value],
    either: Callable[[Value, Value], Value],
) -> Value:
    """Evaluate the tree from the leaves up, with values of any kind."""
    match condition:
        case Not(operand):
            return negate(fold(operand, leaf, negate, both, either))
        case And(operands) | Or(operands):
            join = both if isinstance(condition, And) else either
            value = fold(operands[0], leaf, negate, both, either)
            for operand in operands[1:]:
                value = join(value, fold(operand, leaf, negate, both, either))
            return value
        case _:
            return leaf(condition)


def leaves(condition: Condition) -> Iterator[Leaf]:
    """Yield all relations of the condition, in the order in which they are written."""
    match condition:
        case Not(operand):
            yield from leaves(operand)
        case And(operands) | Or(operands):
            for operand in operands:
                yield from leaves(operand)
        case _:
            yield condition


def reach(condition: Condition) -> float:
    """Return the largest distance in the condition; pairs further apart are far pairs."""
    distances = [leaf.metres for leaf in leaves(condition) if isinstance(leaf, WithinDistance)]
    return max(distances, default=0.0)


def condition_text(condition: Condition, *, symbols: bool = False) -> str:
    """Return the text of the condition, with words such as AND or with ``symbols`` (shortest)."""
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
    """Return one relation by its short name."""
    match leaf:
        case Topological(short):
            return short
        case WithinDistance(metres):
            return f"DW{distance_text(metres)}"
        case Relate(mask):
            return f"Relate({mask})"


def distance_text(metres: float) -> str:
    """Return the shortest decimal without exponent that reads back as the same number."""
    return str(int(metres)) if metres.is_integer() else format(Decimal(repr(metres)), "f")
