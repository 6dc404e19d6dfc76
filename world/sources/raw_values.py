"""Reads single values of a file: integers, keys, names and categories."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from schemas.entity import key_fault
from schemas.language.limits import MAX_CATEGORY_LEVELS

# Bounded, because converting very many digits takes quadratic time.
DECIMAL: Final = re.compile(r"-?[0-9]{1,40}")
# The most characters of a value that a problem shows.
MOST_SHOWN: Final = 60
MAX_CATEGORY_CHARACTERS: Final = 1_024
# The largest whole number up to which a float has every whole number.
MAX_EXACT: Final = 2**53


def is_text(name: str) -> bool:
    """Return whether the name can be written as UTF-8: a lone surrogate cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(name: str) -> str:
    """Return the name of a field for a message, without characters that cannot be printed."""
    return name if name.isprintable() else ascii(name)[1:-1]


def shown(value: Any) -> str:
    """Return the value in a few characters, even if it is deeply nested."""
    try:
        text = repr(value)
    except RecursionError:
        return f"of {type(value).__name__}, nested deep,"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def read_integer(value: Any) -> int | None:
    """Return an integer or the decimal notation of one as int; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    # Unsigned 64-bit columns come as decimals when Spark reads them.
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, str) and DECIMAL.fullmatch(value):
        return int(value)
    return None


def read_key(value: Any) -> tuple[str | None, str]:
    """Return the key that a value is, or None and why it is none; no reason if it is missing.

    Space around a key is removed. A number without fraction is its decimal notation: a column of
    integers becomes one of floats where a writer has no other way to leave a value out.
    """
    if isinstance(value, str):
        key = value.strip()
        fault = key_fault(key) if key else None
        return (None, fault) if fault else (key or None, "")
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None, ""
    number = read_integer(value)
    if number is None and isinstance(value, float) and value.is_integer():
        number = int(value) if abs(value) <= MAX_EXACT else None
    if number is not None:
        return str(number), ""
    return None, f"{shown(value)} is neither text nor a whole number"


def tag_text(value: Any) -> str:
    """Return an attribute as rules see it; "" where it is missing.

    True is ``yes`` and false is ``no``, as in OSM. A float without fraction is a whole number.
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT:
        return str(int(value))
    if isinstance(value, (int, float, Decimal)) and value == value:  # noqa: PLR0124  no NaN
        return str(value)
    return ""


def written_name(value: Any) -> str | None:
    """Return a name as it is stored: without surrounding space; None if nothing is left."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return None


@lru_cache(maxsize=65_536)
def category_fault(category: str) -> str | None:
    """Return why a string cannot be a category; None if it can.

    A category is matched like an MQTT topic, so it must not have wildcards. Empty levels are
    refused because people cannot see them.
    """
    if len(category) > MAX_CATEGORY_CHARACTERS:
        return f"category is longer than {MAX_CATEGORY_CHARACTERS} characters"
    written = repr(category)
    levels = category.split("/")
    if not all(level.strip() for level in levels):
        return f"category {written} has an empty level"
    if len(levels) > MAX_CATEGORY_LEVELS:
        return f"category {written} has more than {MAX_CATEGORY_LEVELS} levels"
    if "+" in category or "#" in category:
        return f"category {written} has a wildcard (+ or #)"
    if not category.isprintable():
        return f"category {written} has a character that cannot be printed"
    return None


def read_categories(value: Any) -> tuple[tuple[str, ...], list[str]]:
    """Return the usable categories of a row, sorted and unique, and the faults of the others.

    A text or a whole number is one category. A trailing slash is ignored, as in a pattern. None, an
    empty text and an empty list give nothing.
    """
    if value is None or value == "" or value != value:  # noqa: PLR0124  true for NaN alone
        return (), []
    if isinstance(value, str) or (number := read_integer(value)) is None:
        value = [value] if isinstance(value, str) else value
    else:
        value = [str(number)]
    if not isinstance(value, (list, tuple)):
        kind = type(value).__name__
        return (), [f"categories must be text or a list of text, not {kind}"]
    usable: set[str] = set()
    faults: list[str] = []
    for item in value:
        if not isinstance(item, str):
            faults.append(f"a category must be a string, not {type(item).__name__}")
            continue
        category = item.removesuffix("/")
        fault = category_fault(category)
        if fault is None:
            usable.add(category)
        else:
            faults.append(fault)
    return tuple(sorted(usable)), faults
