"""A search as text parameters, such as those of an HTTP request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from schemas.errors import SearchError
from world.search.entity_search import EntityQuery
from world.search.places import read_place

PARAMETERS: Final = ("text", "category", "near", "within", "limit")
DEFAULT_LIMIT: Final = 20
# A result stays below a few hundred kilobytes.
MOST_ENTITIES: Final = 1_000


def read_request(parameters: Mapping[str, Sequence[str]]) -> EntityQuery:
    """Return the query of the parameters; SearchError for one that is unknown or impossible."""
    for name, values in parameters.items():
        if name not in PARAMETERS:
            known = ", ".join(PARAMETERS)
            raise SearchError(f"unknown parameter {name[:40]!r}; there are {known}")
        if len(values) > 1:
            raise SearchError(f"the parameter {name!r} is given {len(values)} times")
    given = {name: values[0] for name, values in parameters.items()}
    near = given.get("near")
    return EntityQuery(
        text=given.get("text"),
        category=given.get("category"),
        near=None if near is None else read_place(near),
        within=_metres(given.get("within")),
        limit=_limit(given.get("limit")),
    )


def _metres(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise SearchError(f"within is a number of metres, not {text[:40]!r}") from None


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_ENTITIES):
        raise SearchError(f"limit is a whole number from 1 to {MOST_ENTITIES}, not {text[:40]!r}")
    return int(text)
