"""Reads the WKT of one place: its type and its positions, without judging them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from schemas.errors import DescriptorError
from schemas.language.text_reader import TextReader

Position: TypeAlias = tuple[float, float]
# A position, or lists of them inside each other, as deep as the type of the geometry says.
Coordinates: TypeAlias = Any

EXAMPLE: Final = "POINT(7.42 43.74)"
# The types by their name in GeoJSON, and how many lists are around each position.
DEPTHS: Final = {
    "Point": 0,
    "MultiPoint": 1,
    "LineString": 1,
    "MultiLineString": 2,
    "Polygon": 2,
    "MultiPolygon": 3,
}
_BY_WORD: Final = {name.upper(): name for name in DEPTHS}
_COLLECTION: Final = "GEOMETRYCOLLECTION"
_ALLOWED: Final = f"allowed: {', '.join(_BY_WORD)}, such as {EXAMPLE}"

_WORD: Final = re.compile(r"[A-Za-z]+")
_NUMBER: Final = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


def place_error(what: str) -> DescriptorError:
    """Return the error for a place that is something that a place cannot be."""
    return DescriptorError(f"a place {what}; {_ALLOWED}", 1)


class WktReader(TextReader):
    """Reads one WKT."""

    def read(self) -> tuple[str, Coordinates]:
        """Return the type as in GeoJSON, and the positions."""
        start = self.skip_space()
        word = self._word()
        if word == _COLLECTION:
            raise place_error("is a geometry collection")
        kind = _BY_WORD.get(word.removesuffix("Z"))
        if kind is None:
            self.position = start
            raise self.error(f"a place such as {EXAMPLE}: {', '.join(_BY_WORD)}")
        word = self._word()
        if word == "Z":
            word = self._word()
        if word == "EMPTY":
            raise place_error("is empty")
        if kind == "Point":
            return kind, self._in_parentheses(self._position)
        if kind == "MultiPoint":
            return kind, self._list(self._point)
        return kind, self._nested(DEPTHS[kind])

    def _nested(self, depth: int) -> Coordinates:
        return self._list(self._position if depth == 1 else lambda: self._nested(depth - 1))

    def _list(self, read: Callable[[], Coordinates]) -> Coordinates:
        self.expect("(")
        parts = [read()]
        while self.next_is(","):
            parts.append(read())
        self.expect(")", "',' or ')'")
        return parts

    def _point(self) -> Coordinates:
        """Return a point of several, which may stand in parentheses of its own."""
        self.skip_space()
        if self.text.startswith("(", self.position):
            return self._in_parentheses(self._position)
        return self._position()

    def _in_parentheses(self, read: Callable[[], Coordinates]) -> Coordinates:
        self.expect("(")
        inner = read()
        self.expect(")")
        return inner

    def _position(self) -> Position:
        numbers = [self._number(), self._number()]
        self.skip_space()
        if _NUMBER.match(self.text, self.position):
            self._number()  # the height, which no relation looks at
        return numbers[0], numbers[1]

    def _number(self) -> float:
        start = self.skip_space()
        found = _NUMBER.match(self.text, start)
        if found is None:
            raise self.error("a number of degrees: longitude, a space, latitude")
        self.position = found.end()
        return float(found.group())

    def _word(self) -> str:
        """Return the next word in capitals; "" if there is none."""
        start = self.skip_space()
        word = _WORD.match(self.text, start)
        if word is None:
            return ""
        self.position = word.end()
        return word.group().upper()
