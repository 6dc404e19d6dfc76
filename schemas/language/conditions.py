"""The condition tree: relations joined with AND, OR, NOT.

Both engines and the oracle of the tests start from this tree. ``fold`` is the one way to
walk it, whatever a leaf turns into: a Boolean, a numpy array or a Spark column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Topological:
    """A named relation of the contract's table, by its short name (``C``, ``T``, ``B``)."""

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
    """True when ``operand`` is false."""

    operand: Condition


@dataclass(frozen=True, slots=True)
class And:
    """True when all ``operands`` are."""

    operands: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True when any of ``operands`` is."""

    operands: tuple[Condition, ...]


Leaf: TypeAlias = Topological | WithinDistance | Relate
Condition: TypeAlias = Leaf | Not | And | Or


def fold(
    condition: Condition,
    leaf: Callable[[Leaf], Value],
    negate: Callable[[Value], Value],
    both: Callable[[Value, Value], Value],
    either: Callable[[Value, Value], Value],
) -> Value:
    """Turn the tree into a value of any kind, from the leaves up."""
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
    """All relations of the condition, in the order in which they are written."""
    match condition:
        case Not(operand):
            yield from leaves(operand)
        case And(operands) | Or(operands):
            for operand in operands:
                yield from leaves(operand)
        case _:
            yield condition


def reach(condition: Condition) -> float:
    """The largest distance in the condition: pairs further apart than it are far pairs."""
    distances = [leaf.metres for leaf in leaves(condition) if isinstance(leaf, WithinDistance)]
    return max(distances, default=0.0)
