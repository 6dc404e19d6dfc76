"""Reads places, given as WKT or as a GeoJSON geometry, and writes them in one canonical form.

The canonical form is WKT on WGS 84, longitude first, without heights: ``POINT(7.42 43.74)``. Each
number is the shortest decimal that reads back as the same. Corners keep the order in which they
were written. Whether an area crosses itself is not decided here, because that needs GEOS
(``spatial_udfs/place_geometries.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

from schemas.errors import DescriptorError, NotationError
from schemas.language.limits import MAX_PLACE_VERTICES
from schemas.language.text_reader import TextReader

_LINES: Final = ("LineString", "MultiLineString")
_AREAS: Final = ("Polygon", "MultiPolygon")
_SMALLEST_RING: Final = 4
_LONGEST_SHOWN: Final = 60
_WITH_HEIGHT: Final = 3


class Place(NamedTuple):
    """A place in its canonical form, and the number of its positions."""

    text: str
    vertices: int


def place_of_text(text: str) -> Place:
    """Return the place of a WKT; DescriptorError says what is wrong with it."""
    place, end = read_place(text, 0)
    if text[end:].strip():
        raise NotationError(text, end, "the end of the WKT")
    return place


def read_place(text: str, position: int) -> tuple[Place, int]:
    """Return the place whose WKT begins at ``position``, and the position after it."""
    reader = WktReader(text, position)
    kind, coordinates = reader.read()
    return _place(kind, coordinates), reader.position


def place_of_geometry(geometry: Mapping[str, Any]) -> Place:
    """Return the place of a GeoJSON geometry; DescriptorError says what is wrong with it."""
    kind = geometry.get("type")
    if kind == "GeometryCollection":
        raise place_error("is a geometry collection")
    if kind in ("Feature", "FeatureCollection"):
        raise DescriptorError(
            f'a place is a {kind}; allowed: a GeoJSON geometry, which a Feature has as "geometry"',
            1,
        )
    if not isinstance(kind, str) or kind not in DEPTHS:
        raise DescriptorError(
            'a place is no GeoJSON geometry; allowed: an object with "type" and "coordinates", '
            f"of type {', '.join(DEPTHS)}",
            1,
        )
    for key in geometry:
        if key not in ("type", "coordinates"):
            shown = repr(key[:40])
            raise DescriptorError(
                f"a place has the unknown key {shown}; allowed: type, coordinates", 1
            )
    return _place(kind, _nested(geometry.get("coordinates"), DEPTHS[kind]))


def place_words(text: str) -> str:
    """Return a place in canonical form for a sentence: a long one without its positions."""
    if len(text) <= _LONGEST_SHOWN:
        return text
    vertices = text.count(" ")
    return f"{text.partition('(')[0]}(… {vertices} vertices)"


def _nested(value: object, depth: int) -> Coordinates:
    """Return JSON lists as they have to be: ``depth`` lists around positions."""
    if not isinstance(value, list | tuple):
        raise place_error('has "coordinates" that are no list as its type needs it')
    if not value:
        raise place_error("is empty")
    if depth:
        return [_nested(part, depth - 1) for part in value]
    numbers = [part for part in value if type(part) in (int, float)]
    if len(numbers) != len(value) or len(value) not in (2, _WITH_HEIGHT):
        raise place_error("has a position that is not a list of two or three numbers")
    return numbers[0], numbers[1]


def _check_position(longitude: float, latitude: float) -> None:
    if not -180 <= longitude <= 180 or not -90 <= latitude <= 90:
        swapped = abs(longitude) <= 90 and abs(latitude) <= 180
        hint = "; longitude comes first" if swapped else ""
        raise DescriptorError(
            f"a place has the position {_shown(longitude)} {_shown(latitude)}; "
            f"allowed: longitude -180 .. 180 and latitude -90 .. 90{hint}",
            1,
        )


def _shown(number: float) -> str:
    return f"{number:.10g}" if abs(number) < 1e300 else "a number that is too large"


def _place(kind: str, coordinates: Coordinates) -> Place:
    vertices = _checked(kind, coordinates, DEPTHS[kind])
    if vertices > MAX_PLACE_VERTICES:
        raise DescriptorError(
            f"a place has {vertices} vertices; allowed: at most {MAX_PLACE_VERTICES}", 1
        )
    text = _text(coordinates)
    return Place(f"{kind.upper()}{text if DEPTHS[kind] else f'({text})'}", vertices)


def _checked(kind: str, coordinates: Coordinates, depth: int) -> int:
    """Return the number of positions; DescriptorError for lines and rings that are none."""
    if not depth:
        _check_position(*coordinates)
        return 1
    if depth > 1 or kind == "MultiPoint":
        return sum(_checked(kind, part, depth - 1) for part in coordinates)
    if kind in _LINES and len(set(coordinates)) < 2:
        raise place_error("has a line without two different positions")
    if kind in _AREAS and (coordinates[0] != coordinates[-1] or len(coordinates) < _SMALLEST_RING):
        raise place_error(
            "has a ring that does not end where it begins, or with fewer than 4 positions"
        )
    return sum(_checked(kind, part, 0) for part in coordinates)


def _text(coordinates: Coordinates) -> str:
    if isinstance(coordinates, tuple):
        return " ".join(_number_text(float(number)) for number in coordinates)
    return "(" + ",".join(_text(part) for part in coordinates) + ")"


def _number_text(number: float) -> str:
    # An integer has no sign where it is 0.
    return str(int(number)) if number.is_integer() else format(Decimal(repr(number)), "f")


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
