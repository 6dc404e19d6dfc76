"""Lines of subscriptions taken apart, a block of them at once.

A line in the usual form is taken apart by a regular expression, so that equal descriptors can
be found before any of them is parsed. Every other line goes through the strict reader, which
also says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schemas.errors import SpapsError
from schemas.language.limits import MAX_DESCRIPTOR_BYTES
from schemas.membership import DESCRIPTOR, SUB_ID
from schemas.subscription import MAX_SUB_ID, parse_subscription
from spatial_udfs.batch.subscription_parts import (
    BadRow,
    PartFacts,
    SubscriptionPart,
    part_of_texts,
)
from spatial_udfs.entity_table import Int64s

# Where a line stands: the number of its range, and its number there.
LINES_IN_RANGE: Final = 2**40

_SPACE: Final = r"[ \t\r]*"
_COMMA: Final = f"{_SPACE},{_SPACE}"
_MOST_DIGITS: Final = len(str(MAX_SUB_ID))
_NUMBER: Final = rf'"{SUB_ID}"{_SPACE}:{_SPACE}(0|[1-9][0-9]{{0,{_MOST_DIGITS - 1}}})'
# The strict reader measures a descriptor without its spaces, so a long one is left to it.
_TEXT: Final = rf'"{DESCRIPTOR}"{_SPACE}:{_SPACE}(\{{.{{0,{MAX_DESCRIPTOR_BYTES - 2}}}\}})'
_FORMS: Final = "|".join(
    rf"{_SPACE}\{{{_SPACE}{first}{_COMMA}{second}{_SPACE}\}}{_SPACE}(?=\n|\Z)"
    for first, second in ((_NUMBER, _TEXT), (_TEXT, _NUMBER))
)
# Each line gives one match: a number and a text in either order, or the line as it is.
_LINE: Final = re.compile(rf"(?:{_FORMS}|([^\n]*))(?:\n|\Z)".encode())

_NO_TEXT: Final = "the line is not UTF-8"


@dataclass(frozen=True, slots=True)
class RowPlaces:
    """How a person finds a bad row again: by its line, or where rows have none by its number."""

    names: tuple[str, ...] = ()  # of the file, for each range of lines
    lines_before: tuple[int, ...] = ()  # in the same file

    def where(self, place: int, sub_id: int | None) -> str:
        """Return the place in words."""
        if not self.names:
            return f"subId {'null' if sub_id is None else sub_id}"
        number, line = divmod(place, LINES_IN_RANGE)
        return f"{self.names[number]} line {self.lines_before[number] + line + 1}"


def parts_of_range(number: int, blocks: Iterable[bytes]) -> Iterator[SubscriptionPart]:
    """Yield the subscriptions of a range of a file that comes in blocks of whole lines."""
    lines = 0
    for block in blocks:
        part = _part_of(block, number * LINES_IN_RANGE + lines)
        yield part._replace(range_number=number)
        lines += part.lines


def _part_of(block: bytes, first_place: int) -> SubscriptionPart:
    found = _LINE.findall(block)
    found.pop()  # an empty one at the very end
    numbers = [first or last for first, _, _, last, _ in found]
    texts = [second or first for _, second, first, _, _ in found]
    unusual = {row: found[row][4] for row, number in enumerate(numbers) if not number}
    long = [row for row, number in enumerate(numbers) if len(number) == _MOST_DIGITS]
    unusual |= _lines_at(block, [row for row in long if int(numbers[row]) > MAX_SUB_ID])
    rows, bad = _strictly_read(unusual, first_place)
    for row in unusual:
        numbers[row] = b""
    for row, (number, text) in rows.items():
        numbers[row], texts[row] = number, text
    kept = np.flatnonzero(np.fromiter(map(len, numbers), np.int64, len(numbers)))
    if len(kept) < len(numbers):
        numbers = [number for number in numbers if number]
        texts = [texts[row] for row in kept.tolist()]
    sub_ids = np.fromiter(map(int, numbers), np.int64, len(numbers))
    part = _of_bytes(sub_ids, pa.array(texts, pa.binary()), first_place + kept, bad)
    return part._replace(lines=len(found))


def _lines_at(block: bytes, rows: list[int]) -> dict[int, bytes]:
    if not rows:
        return {}
    lines = block.split(b"\n")
    return {row: lines[row] for row in rows}


def _strictly_read(
    lines: dict[int, bytes], first_place: int
) -> tuple[dict[int, tuple[bytes, bytes]], list[BadRow]]:
    """Return number and text of the good lines, and what is wrong with the others."""
    good, bad = {}, []
    for row, line in lines.items():
        if not line.strip():
            continue
        try:
            subscription = parse_subscription(line.decode())
        except UnicodeDecodeError:
            bad.append(BadRow(first_place + row, None, _NO_TEXT))
        except SpapsError as error:
            bad.append(BadRow(first_place + row, None, str(error)))
        else:
            text = subscription.neighborhood.to_json().encode()
            good[row] = (str(subscription.sub_id).encode(), text)
    return good, bad


def _of_bytes(
    sub_ids: Int64s, texts: pa.BinaryArray, places: Int64s, bad: list[BadRow]
) -> SubscriptionPart:
    """Return the part; here each text is looked at once, so bytes that are no text are found."""
    try:
        return part_of_texts(sub_ids, texts, places, bad)
    except pa.ArrowInvalid:
        sound = np.array([_is_text(text) for text in texts.to_pylist()], np.bool_)
        wrong = [BadRow(place, None, _NO_TEXT) for place in places[~sound].tolist()]
        kept = texts.filter(pa.array(sound))
        return part_of_texts(sub_ids[sound], kept, places[sound], [*bad, *wrong])


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def places_of(shares: Sequence[Any], facts: Iterable[PartFacts]) -> RowPlaces:
    """Return where rows stand, for files whose lines are counted by range."""
    ranges = [each for share in shares if isinstance(share, list) for each in share]
    counts = [0] * len(ranges)
    for part in facts if counts else ():
        counts[part.range_number] += part.lines
    before: list[int] = []
    for lines in ranges:
        goes_on = lines.start > 0
        before.append(before[-1] + counts[lines.number - 1] if goes_on else 0)
    names = tuple(lines.path.rpartition("/")[2] for lines in ranges)
    return RowPlaces(names, tuple(before))
