"""Parses the text of a condition into the tree of ``schemas.language.conditions``.

The parser has a stack of its own instead of recursion, so no text can exhaust Python's stack.
Its trees are normal: operands of AND are never ANDs, operands of OR never ORs. That makes
printing and parsing exact inverses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from schemas.errors import NotationError
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
from schemas.language.limits import MAX_CONDITION_DEPTH, MAX_CONDITION_LEAVES, MAX_DISTANCE_METRES
from schemas.topology.relations import LONG_NAMES

# Only short texts are cached, so that hostile ones cannot fill the memory of a broker.
_REMEMBERED_LENGTH: Final = 100

_SPACE: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"[A-Za-z]+")
# Units that people write after a distance.
_UNIT: Final = re.compile(r"\s*(m|km|metres?|meters?|ft|feet|mi|miles?)\b", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")

_BY_NAME: Final = {short: Topological(short) for short in LONG_NAMES}
_BY_LONG_NAME: Final = {long.lower(): _BY_NAME[short] for short, long in LONG_NAMES.items()}
_OPERATORS: Final = {"and": And, "∧": And, "&": And, "or": Or, "\N{LOGICAL OR}": Or, "|": Or}
_NEGATIONS: Final = ("not", "¬", "!")

_RELATION_EXPECTED: Final = (
    f"a relation ({', '.join(LONG_NAMES)}, DW500, Relate(mask) or a long name), NOT or '('"
)
_DISTANCE_EXPECTED: Final = "a distance in metres such as 500 or 0.5"


def parse_condition(text: str) -> Condition:
    """Return the condition of a text; NotationError with the position if it is wrong."""
    return _remembered(text) if len(text) <= _REMEMBERED_LENGTH else _parse(text)


def _parse(text: str) -> Condition:
    condition, end = read_condition(text, 0)
    if end < len(text):
        raise NotationError(text, end, "AND, OR or the end of the condition")
    return condition


_remembered = lru_cache(maxsize=4096)(_parse)


def read_condition(text: str, position: int) -> tuple[Condition, int]:
    """Return the condition that begins at ``position``, and the position after it.

    It ends before the first token that cannot continue it, so that a notation can contain it.
    """
    return _Reader(text, position).read()


@dataclass(slots=True)
class _Level:
    """The operands read so far inside one pair of parentheses."""

    negations: int = 0
    conjunction: list[Condition] = field(default_factory=list)
    alternatives: list[Condition] = field(default_factory=list)

    def take(self, operand: Condition) -> int:
        """Add an operand under the NOTs before it; return the number of these NOTs."""
        used, self.negations = self.negations, 0
        for _ in range(used):
            operand = Not(operand)
        self.conjunction.append(operand)
        return used

    def end_conjunction(self) -> None:
        self.alternatives.append(_joined(And, self.conjunction))
        self.conjunction = []

    def condition(self) -> Condition:
        self.end_conjunction()
        return _joined(Or, self.alternatives)


def _joined(kind: type[And | Or], operands: list[Condition]) -> Condition:
    if len(operands) == 1:
        return operands[0]
    flat: list[Condition] = []
    for operand in operands:
        if isinstance(operand, kind):
            flat.extend(operand.operands)
        else:
            flat.append(operand)
    return kind(tuple(flat))


class _Reader:
    """Reads the text in one pass, with a level for each open parenthesis."""

    def __init__(self, text: str, position: int) -> None:
        self._text = text
        self._position = position
        self._levels = [_Level()]
        self._open = 0
        self._leaves = 0

    def read(self) -> tuple[Condition, int]:
        while True:
            self._read_operand()
            if not self._read_operator():
                return self._levels[0].condition(), self._position

    def _read_operand(self) -> None:
        """Read NOTs and opening parentheses, then one relation."""
        while True:
            start = self._skip_space()
            word = self._word_or_symbol()
            if word.lower() in _NEGATIONS:
                self._position += len(word)
                self._levels[-1].negations += 1
            elif word == "(":
                self._position += 1
                self._levels.append(_Level())
            else:
                self._take_leaf(self._relation(word))
                return
            self._open += 1
            if self._open > MAX_CONDITION_DEPTH:
                raise self._error(
                    start, f"at most {MAX_CONDITION_DEPTH} NOTs and parentheses inside each other"
                )

    def _take_leaf(self, leaf: Leaf) -> None:
        self._leaves += 1
        self._open -= self._levels[-1].take(leaf)

    def _read_operator(self) -> bool:
        """Read closing parentheses, then AND or OR; return False if the condition ends."""
        while True:
            self._skip_space()
            word = self._word_or_symbol()
            if word == ")" and len(self._levels) > 1:
                self._position += 1
                inner = self._levels.pop().condition()
                self._open -= 1 + self._levels[-1].take(inner)
                continue
            operator = _OPERATORS.get(word.lower())
            if operator is None:
                if len(self._levels) > 1:
                    raise self._error(self._position, "AND, OR or ')'")
                return False
            if operator is Or:
                self._levels[-1].end_conjunction()
            self._position += len(word)
            return True

    def _relation(self, word: str) -> Leaf:
        start = self._position
        if self._leaves == MAX_CONDITION_LEAVES:
            raise self._error(start, f"at most {MAX_CONDITION_LEAVES} relations")
        self._position += len(word)
        named = _BY_NAME.get(word) or _BY_LONG_NAME.get(word.lower())
        if named is not None:
            return named
        if word in ("DW", "WD") or word.lower() == "dwithin":
            return self._distance()
        if word.lower() == "relate":
            return self._relate()
        if word.upper() in (*_BY_NAME, "DW", "WD"):
            raise self._error(start, f"{word.upper()} (short names are written in capitals)")
        raise self._error(start, _RELATION_EXPECTED)

    def _distance(self) -> WithinDistance:
        self._skip_space()
        in_parentheses = self._word_or_symbol() == "("
        if in_parentheses:
            self._position += 1
            self._skip_space()
        start = self._position
        number = _NUMBER.match(self._text, start)
        if number is None:
            raise self._error(start, _DISTANCE_EXPECTED)
        metres = float(number.group())
        if metres > MAX_DISTANCE_METRES:
            raise self._error(start, f"a distance of at most {MAX_DISTANCE_METRES:.0f} metres")
        self._position = number.end()
        unit = _UNIT.match(self._text, self._position)
        if unit is not None:
            raise self._error(unit.start(1), "no unit: a distance is in metres, such as DW500")
        if in_parentheses:
            self._expect(")")
        return WithinDistance(metres)

    def _relate(self) -> Relate:
        self._expect("(")
        start = self._skip_space()
        for position in range(start, start + 9):
            if self._text[position : position + 1].upper() not in tuple("TF*012"):
                raise self._error(position, "a mask of 9 characters out of T, F, *, 0, 1, 2")
        self._position = start + 9
        self._expect(")")
        return Relate(self._text[start : start + 9].upper())

    def _expect(self, symbol: str) -> None:
        self._skip_space()
        if not self._text.startswith(symbol, self._position):
            raise self._error(self._position, f"'{symbol}'")
        self._position += 1

    def _skip_space(self) -> int:
        match = _SPACE.match(self._text, self._position)
        self._position = match.end() if match else self._position
        return self._position

    def _word_or_symbol(self) -> str:
        word = _WORD.match(self._text, self._position)
        return word.group() if word else self._text[self._position : self._position + 1]

    def _error(self, position: int, expected: str) -> NotationError:
        return NotationError(self._text, position, expected)
