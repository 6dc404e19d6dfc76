"""Reads and prints the compact notation: ``({4711},{road/#},C) • (Prev,{shop/+},T)``.

A category pattern that could be misread is printed as a JSON string in double quotes, any other as
it is. So every descriptor can be printed, and reads back as the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from schemas.errors import DescriptorError, NotationError
from schemas.language.condition_parser import read_condition
from schemas.language.conditions import condition_text
from schemas.language.descriptor_json import check_size, parse_descriptor
from schemas.language.descriptor_rules import LONGEST_INTEGER, StageCollector, checked_refs
from schemas.language.limits import MAX_NOTATION_CHARACTERS
from schemas.language.neighborhood import Neighborhood, RefStages, Stage

_SPACE: Final = re.compile(r"\s*")
_DIGITS: Final = re.compile(r"[0-9]+")
_BITS: Final = re.compile(r"[01]+")
_WORD: Final = re.compile(r"[A-Za-z]+")
_BARE_PATTERN: Final = re.compile(r'[^,{}"]+')
# Patterns printed without quotes: they have no space and no character that ends a pattern.
_PLAIN: Final = re.compile(r"""[^\s,{}()"';•]+""")
_DECODER: Final = json.JSONDecoder()


def notation(neighborhood: Neighborhood, *, with_name: bool = False) -> str:
    """Return the neighborhood in the notation, optionally with its name in front."""
    refs = _braced(str(ref) for ref in neighborhood.refs)
    text = " • ".join(_stage_text(stage, refs) for stage in neighborhood.stages)
    if not all(neighborhood.visible):
        text += " visible " + "".join("1" if shown else "0" for shown in neighborhood.visible)
    if with_name and neighborhood.name is not None:
        text = f"{_quoted(neighborhood.name)}: {text}"
    return text


def _stage_text(stage: Stage, refs: str) -> str:
    match stage.ref_stages:
        case None:
            references = refs
        case "Prev" | "Anc":
            references = stage.ref_stages
        case _:
            references = _braced(str(number) for number in stage.ref_stages)
    categories = _braced(pattern_text(pattern) for pattern in stage.categories)
    times = str(stage.repeat) if stage.repeat > 1 else ""
    return f"{times}({references},{categories},{condition_text(stage.condition)})"


def _braced(items: Iterable[str]) -> str:
    return "{" + ",".join(items) + "}"


def pattern_text(pattern: str) -> str:
    """Return the pattern as printed in a notation: in double quotes if it could be misread."""
    plain = _PLAIN.fullmatch(pattern) and pattern.isprintable()
    return pattern if plain else _quoted(pattern)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())


def parse_notation(text: str) -> Neighborhood:
    """Return the neighborhood of a text; NotationError with the position if it is wrong."""
    if len(text) > MAX_NOTATION_CHARACTERS:
        raise DescriptorError(
            f"the notation has {len(text)} characters; allowed: at most {MAX_NOTATION_CHARACTERS}"
        )
    neighborhood = _Reader(text).read()
    check_size(neighborhood)
    return neighborhood


class _Reader:
    """Reads the text in one pass; each method reads one part and moves the position behind it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._stages = StageCollector()

    def read(self) -> Neighborhood:
        name = self._name()
        repeat = self._count()
        self._expect("(", "'(' of a stage such as ({4711},{road/#},C)")
        refs = checked_refs(self._numbers())
        self._rest_of_stage(None, repeat)
        while self._next_is("•", ";"):
            repeat = self._count()
            self._expect("(", "'(' of a stage such as (Prev,{road/#},T)")
            self._rest_of_stage(self._ref_stages(), repeat)
        visible = self._visible()
        if self._skip_space() < len(self._text):
            raise self._error("'•', ';', visible or the end")
        return self._stages.neighborhood(refs, visible, name)

    def _rest_of_stage(self, ref_stages: RefStages | None, repeat: int | None) -> None:
        self._expect(",")
        categories = self._categories()
        self._expect(",")
        try:
            condition, self._position = read_condition(self._text, self._position)
        except NotationError as error:
            self._position = error.position
            raise self._error(error.expected) from None
        self._expect(")", "AND, OR or ')'")
        self._stages.add(categories, condition, ref_stages, repeat)

    def _name(self) -> str | None:
        self._skip_space()
        if not self._text.startswith('"', self._position):
            return None
        name = self._string()
        self._expect(":")
        return name

    def _count(self) -> int | None:
        self._skip_space()
        return self._number() if _DIGITS.match(self._text, self._position) else None

    def _ref_stages(self) -> RefStages:
        start = self._skip_space()
        word = _WORD.match(self._text, start)
        if word is None:
            return tuple(self._numbers())
        self._position = word.end()
        match word.group().lower():
            case "prev":
                return "Prev"
            case "anc":
                return "Anc"
        self._position = start
        raise self._error("Prev, Anc or stage numbers such as {2,3}")

    def _numbers(self) -> list[int]:
        self._expect("{", "numbers such as {2,3}")
        numbers = [self._number()]
        while self._next_is(","):
            numbers.append(self._number())
        self._expect("}", "',' or '}'")
        return numbers

    def _number(self) -> int:
        start = self._skip_space()
        digits = _DIGITS.match(self._text, start)
        if digits is None:
            raise self._error("a number")
        significant = digits.group().lstrip("0") or "0"
        if len(significant) > LONGEST_INTEGER:
            raise self._error(f"a number of at most {LONGEST_INTEGER} digits")
        self._position = digits.end()
        return int(significant)

    def _categories(self) -> list[str]:
        self._expect("{", "category patterns such as {road/#,shop/+}")
        categories = [self._pattern()]
        while self._next_is(","):
            categories.append(self._pattern())
        self._expect("}", "',' or '}'")
        return categories

    def _pattern(self) -> str:
        start = self._skip_space()
        if self._text.startswith('"', start):
            return self._string()
        bare = _BARE_PATTERN.match(self._text, start)
        if bare is None:
            raise self._error("a category pattern such as road/#")
        self._position = bare.end()
        return bare.group().rstrip()

    def _string(self) -> str:
        try:
            text, self._position = _DECODER.raw_decode(self._text, self._position)
        except json.JSONDecodeError as error:
            self._position = error.pos
            raise self._error('a text in double quotes, with \\" and \\\\ for " and \\') from None
        return str(text)

    def _visible(self) -> list[bool] | None:
        start = self._skip_space()
        word = _WORD.match(self._text, start)
        if word is None or word.group().lower() != "visible":
            return None
        self._position = word.end()
        bits = _BITS.match(self._text, self._skip_space())
        if bits is None:
            raise self._error("a 0 or 1 for each written-out stage")
        self._position = bits.end()
        return [bit == "1" for bit in bits.group()]

    def _skip_space(self) -> int:
        match = _SPACE.match(self._text, self._position)
        self._position = match.end() if match else self._position
        return self._position

    def _next_is(self, *symbols: str) -> bool:
        start = self._skip_space()
        found = self._text.startswith(symbols, start)
        self._position += found
        return found

    def _expect(self, symbol: str, expected: str = "") -> None:
        if not self._next_is(symbol):
            raise self._error(expected or f"'{symbol}'")

    def _error(self, expected: str) -> NotationError:
        return NotationError(self._text, self._position, expected, self._stages.number)


def read_neighborhood(text: str) -> Neighborhood:
    """Return the neighborhood of a JSON text (it begins with ``{``) or of a notation."""
    return parse_descriptor(text) if text.lstrip().startswith("{") else parse_notation(text)
