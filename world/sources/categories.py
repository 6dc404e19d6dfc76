"""Which strings can be a category, and the reading of an input row's list of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from schemas.language.limits import MAX_CATEGORY_LEVELS

MAX_CATEGORY_CHARACTERS = 1_024


@lru_cache(maxsize=65_536)
def category_fault(category: str) -> str | None:
    """Why a string cannot be a category, or None when it can.

    A category is matched like an MQTT topic, so it must not look like a filter, and an empty
    level would be one that no person can see.
    """
    if len(category) > MAX_CATEGORY_CHARACTERS:
        return f"category is longer than {MAX_CATEGORY_CHARACTERS} characters"
    shown = repr(category)
    levels = category.split("/")
    if not all(level.strip() for level in levels):
        return f"category {shown} has an empty level"
    if len(levels) > MAX_CATEGORY_LEVELS:
        return f"category {shown} has more than {MAX_CATEGORY_LEVELS} levels"
    if "+" in category or "#" in category:
        return f"category {shown} has a wildcard (+ or #)"
    if not category.isprintable():
        return f"category {shown} has a character that cannot be printed"
    return None


def read_categories(value: Any) -> tuple[tuple[str, ...], list[str]]:
    """The usable categories of a row, sorted and each once, and what is wrong with the others.

    A trailing slash is ignored, as it is in a pattern. None and an empty list give nothing.
    """
    if value is None:
        return (), []
    if not isinstance(value, (list, tuple)):
        return (), [f"categories must be a list of strings, not {type(value).__name__}"]
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
