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
from schemas.language.descriptor_rules import LONGEST_INTEGER, StageCollector
from schemas.language.limits import MAX_NOTATION_CHARACTERS
from schemas.language.neighborhood import Neighborhood, References, RefStages, Stage
from schemas.language.places import read_place
from schemas.language.references import (
    KEY,
    NAME,
    PLACE,
    ReferenceCollector,
    quoted,
    reference_texts,
)
from schemas.language.text_reader import TextReader

_DIGITS: Final = re.compile(r"[0-9]+")
_BITS: Final = re.compile(r"[01]+")
_WORD: Final = re.compile(r"[A-Za-z]+")
_BARE: Final = re.compile(r'[^,{}"]+')
# Patterns printed without quotes: they have no space and no character that ends a pattern.
_PLAIN: Final = re.compile(r"""[^\s,{}()"';•]+""")
_DECODER: Final = json.JSONDecoder()


def notation(neighborhood: Neighborhood, *, with_name: bool = False) -> str:
    """Return the neighborhood in the notation, optionally with its name in front."""
    refs = _braced(reference_texts(neighborhood))
    text = " • ".join(_stage_text(stage, refs) for stage in neighborhood.stages)
    if not all(neighborhood.visible):
        text += " visible " + "".join("1" if shown else "0" for shown in neighborhood.visible)
    if with_name and neighborhood.name is not None:
        text = f"{quoted(neighborhood.name)}: {text}"
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
    return pattern if plain else quoted(pattern)


def parse_notation(text: str) -> Neighborhood:
    """Return the neighborhood of a text; NotationError with the position if it is wrong."""
    if len(text) > MAX_NOTATION_CHARACTERS:
        raise DescriptorError(
            f"the notation has {len(text)} characters; allowed: at most {MAX_NOTATION_CHARACTERS}"
        )
    neighborhood = _Reader(text).read()
    check_size(neighborhood)
    return neighborhood


class _Reader(TextReader):
    """Reads the text in one pass; each method reads one part and moves the position behind it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._stages = StageCollector()

    @property
    def stage(self) -> int:
        """The written-out number of the stage that is being read."""
        return self._stages.number

    def read(self) -> Neighborhood:
        name = self._name()
        repeat = self._count()
        self.expect("(", "'(' of a stage such as ({4711},{road/#},C)")
        refs = self._references()
        self._rest_of_stage(None, repeat)
        while self.next_is("•", ";"):
            repeat = self._count()
            self.expect("(", "'(' of a stage such as (Prev,{road/#},T)")
            self._rest_of_stage(self._ref_stages(), repeat)
        visible = self._visible()
        if self.skip_space() < len(self.text):
            raise self.error("'•', ';', visible or the end")
        return self._stages.neighborhood(refs, visible, name)

    def _rest_of_stage(self, ref_stages: RefStages | None, repeat: int | None) -> None:
        self.expect(",")
        categories = self._categories()
        self.expect(",")
        try:
            condition, self.position = read_condition(self.text, self.position)
        except NotationError as error:
            self.position = error.position
            raise self.error(error.expected) from None
        self.expect(")", "AND, OR or ')'")
        self._stages.add(categories, condition, ref_stages, repeat)

    def _name(self) -> str | None:
        self.skip_space()
        if not self.text.startswith('"', self.position):
            return None
        name = self._string()
        self.expect(":")
        return name

    def _count(self) -> int | None:
        self.skip_space()
        return self._number() if _DIGITS.match(self.text, self.position) else None

    def _ref_stages(self) -> RefStages:
        start = self.skip_space()
        word = _WORD.match(self.text, start)
        if word is None:
            return tuple(self._numbers())
        self.position = word.end()
        match word.group().lower():
            case "prev":
                return "Prev"
            case "anc":
                return "Anc"
        self.position = start
        raise self.error("Prev, Anc or stage numbers such as {2,3}")

    def _references(self) -> References:
        allowed = "references such as {4711,key:way/123}"
        self.expect("{", allowed)
        collector = ReferenceCollector()
        self._add_reference(collector)
        while self.next_is(","):
            self._add_reference(collector)
        self.expect("}", "',' or '}'")
        return collector.references()

    def _add_reference(self, collector: ReferenceCollector) -> None:
        start = self.skip_space()
        if _DIGITS.match(self.text, start):
            collector.add_peid(self._number())
            return
        word = _WORD.match(self.text, start)
        kind = word.group().lower() if word else ""
        if word is None or kind not in (KEY, NAME, PLACE):
            raise self.error('a number, key:…, name:"…" or at:POINT(7.42 43.74)')
        self.position = word.end()
        self.expect(":")
        self.skip_space()
        if kind == PLACE:
            place, self.position = read_place(self.text, self.position)
            collector.add_place(place)
        elif kind == KEY:
            collector.add_key(self._bare_or_string("a key such as way/123#2"))
        else:
            collector.add_name(self._bare_or_string('a name such as "Monte-Carlo"'))

    def _numbers(self) -> list[int]:
        self.expect("{", "numbers such as {2,3}")
        numbers = [self._number()]
        while self.next_is(","):
            numbers.append(self._number())
        self.expect("}", "',' or '}'")
        return numbers

    def _number(self) -> int:
        start = self.skip_space()
        digits = _DIGITS.match(self.text, start)
        if digits is None:
            raise self.error("a number")
        significant = digits.group().lstrip("0") or "0"
        if len(significant) > LONGEST_INTEGER:
            raise self.error(f"a number of at most {LONGEST_INTEGER} digits")
        self.position = digits.end()
        return int(significant)

    def _categories(self) -> list[str]:
        self.expect("{", "category patterns such as {road/#,shop/+}")
        categories = [self._pattern()]
        while self.next_is(","):
            categories.append(self._pattern())
        self.expect("}", "',' or '}'")
        return categories

    def _pattern(self) -> str:
        return self._bare_or_string("a category pattern such as road/#")

    def _bare_or_string(self, expected: str) -> str:
        start = self.skip_space()
        if self.text.startswith('"', start):
            return self._string()
        bare = _BARE.match(self.text, start)
        if bare is None:
            raise self.error(expected)
        self.position = bare.end()
        return bare.group().rstrip()

    def _string(self) -> str:
        try:
            text, self.position = _DECODER.raw_decode(self.text, self.position)
        except json.JSONDecodeError as error:
            self.position = error.pos
            raise self.error('a text in double quotes, with \\" and \\\\ for " and \\') from None
        return str(text)

    def _visible(self) -> list[bool] | None:
        start = self.skip_space()
        word = _WORD.match(self.text, start)
        if word is None or word.group().lower() != "visible":
            return None
        self.position = word.end()
        bits = _BITS.match(self.text, self.skip_space())
        if bits is None:
            raise self.error("a 0 or 1 for each written-out stage")
        self.position = bits.end()
        return [bit == "1" for bit in bits.group()]


def read_neighborhood(text: str) -> Neighborhood:
    """Return the neighborhood of a JSON text (it begins with ``{``) or of a notation."""
    return parse_descriptor(text) if text.lstrip().startswith("{") else parse_notation(text)
