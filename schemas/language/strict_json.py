"""JSON without the surprises of Python's decoder, which ends in one kind of error only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from schemas.errors import DescriptorError
from schemas.language.descriptor_rules import LONGEST_INTEGER

_TOO_LARGE: Final = 10**LONGEST_INTEGER


class _Object(dict[str, Any]):
    """A JSON object that remembers a key that was written twice."""

    __slots__ = ("twice",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice: str | None = None
        if len(self) < len(pairs):
            self.twice = Counter(key for key, _ in pairs).most_common(1)[0][0]


def _integer(digits: str) -> int:
    """The number; one that is far too long becomes another one that no rule allows."""
    if len(digits) <= LONGEST_INTEGER:
        return int(digits)
    return -_TOO_LARGE if digits.startswith("-") else _TOO_LARGE


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_Object, parse_int=_integer)


def decoded(source: str | bytes, max_bytes: int) -> object:
    """What the JSON text stands for; UTF-8 alone, where Python would guess UTF-16 as well."""
    try:
        data = source.encode() if isinstance(source, str) else source
        check_bytes(len(data), max_bytes)
        return _DECODER.decode(data.decode())
    except UnicodeError:
        raise DescriptorError("the descriptor is not valid UTF-8; allowed: JSON in UTF-8") from None
    except json.JSONDecodeError as error:
        raise DescriptorError(
            f"the descriptor is not JSON: at character {error.pos + 1}: {error.msg}; "
            "allowed: one JSON object"
        ) from None
    except RecursionError:
        raise DescriptorError(
            "the descriptor is nested too deeply; allowed: an object with a list of stage objects"
        ) from None


def key_written_twice(entry: Mapping[Any, Any]) -> str | None:
    """A key that the JSON text has twice in this object, where Python would keep the last."""
    return entry.twice if isinstance(entry, _Object) else None


def check_bytes(size: int, max_bytes: int) -> None:
    """Refuse a descriptor that is longer than its limit."""
    if size > max_bytes:
        raise DescriptorError(f"the descriptor has {size} bytes; allowed: at most {max_bytes}")
