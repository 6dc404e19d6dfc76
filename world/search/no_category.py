"""The error for a category pattern that selects nothing, with what may have been meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemas.errors import SearchError
from schemas.language.categories import (
    ANY_BELOW,
    SEPARATOR,
    CategoryTree,
    checked_pattern,
    likely_pattern,
    places_of,
)

TOPS_SHOWN: Final = 6


def no_category(pattern: str, categories: Sequence[str]) -> SearchError:
    """Return the error for a pattern that matches none of the categories."""
    return SearchError(f"no category of this world matches {pattern!r}{_hint(pattern, categories)}")


def _hint(pattern: str, categories: Sequence[str]) -> str:
    below = f"{checked_pattern(pattern)}/{ANY_BELOW}"
    if ANY_BELOW not in pattern and CategoryTree(categories).codes([below]):
        return f": {below} has everything below it"
    meant = likely_pattern(pattern, categories)
    if meant:
        return f"; did you mean {meant}?"
    tops = [f"{place}/{ANY_BELOW}" for place in places_of(categories) if SEPARATOR not in place]
    more = " …" if len(tops) > TOPS_SHOWN else ""
    return f"; there are {', '.join(tops[:TOPS_SHOWN])}{more}" if tops else ""
