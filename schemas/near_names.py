"""Finds user properties whose names are nearly ours: a typing error would otherwise pass unseen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from schemas.mqtt_names import NEIGHBORHOOD, NSID, PEID

OUR_NAMES: Final = (NEIGHBORHOOD, NSID, PEID)
# Longer names are other words. So the work for each name is bounded.
MOST_CHARACTERS: Final = len(NEIGHBORHOOD) + 4
# In short names one other letter makes another word (``pid``), so only case and signs may differ.
MISSPELT_FROM: Final = 8
_SIGNS: Final = str.maketrans("", "", "-_. ")


def name_meant(name: str) -> str | None:
    """Return our name that a name is nearly, None when it is ours or another word."""
    if name in OUR_NAMES or len(name) > MOST_CHARACTERS:
        return None
    letters = name.casefold().translate(_SIGNS)
    for ours in OUR_NAMES:
        if letters == ours or (len(ours) >= MISSPELT_FROM and _is_misspelt(letters, ours)):
            return ours
    return None


def name_warnings(names: Iterable[str], most: int = 3) -> list[str]:
    """Return a line for each different name that is nearly ours, for the first few of them."""
    warnings: list[str] = []
    for name in dict.fromkeys(names):
        ours = name_meant(name)
        if ours is not None:
            warnings.append(f"the user property {name!r} is ignored; did you mean {ours!r}?")
            if len(warnings) == most:
                break
    return warnings


def _is_misspelt(word: str, right: str) -> bool:
    """Return whether one letter is missing, added or another one, or two neighbors are swapped."""
    shorter = min(len(word), len(right))
    start = 0
    while start < shorter and word[start] == right[start]:
        start += 1
    end = 0
    while end < shorter - start and word[-1 - end] == right[-1 - end]:
        end += 1
    left, expected = word[start : len(word) - end], right[start : len(right) - end]
    if max(len(left), len(expected)) <= 1:
        return True
    return len(left) == 2 and left == expected[::-1]
