"""Finds entities by text, category and place, the best match or the nearest one first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from schemas import entity
from schemas.errors import SearchError
from world.search.places import Place, distances_from, read_place
from world.search.searched_world import SearchedWorld
from world.search.text_match import NO_MATCH, match_levels

LONGEST_TEXT: Final = 200
Rows: TypeAlias = NDArray[np.int64]

_LEVEL: Final = "level"
_LENGTH: Final = "length"
_FOLDED: Final = "folded"
_DISTANCE: Final = "distance"


@dataclass(frozen=True, slots=True)
class EntityQuery:
    """What to look for. What is None does not restrict; ``limit`` 0 returns everything.

    With ``near`` the nearest entities come first, without it the best matches of ``text``.
    """

    text: str | None = None
    category: str | None = None
    near: Place | None = None
    within: float | None = None
    limit: int = 20

    def __post_init__(self) -> None:
        """Refuse a query that cannot be answered."""
        if self.text is None and self.category is None and self.near is None:
            raise SearchError("nothing to look for: give a text, a category or a place")
        if self.text is not None and len(self.text) > LONGEST_TEXT:
            raise SearchError(f"the text is longer than {LONGEST_TEXT} characters")
        if self.within is not None and self.near is None:
            raise SearchError("within needs a place to measure from: give near too")
        if self.within is not None and not self.within >= 0:
            raise SearchError("within must be a number of metres, at least 0")
        if self.limit < 0:
            raise SearchError("the limit must be a whole number, at least 0")


@dataclass(frozen=True, slots=True)
class FoundEntity:
    """One entity of a result; ``distance`` is in metres, None without a place."""

    peid: int
    key: str
    name: str | None
    categories: tuple[str, ...]
    distance: float | None

    def as_json(self) -> dict[str, Any]:
        """Return the entity for JSON; the peid as text, because JavaScript ends at 2^53."""
        shown: dict[str, Any] = {
            entity.PEID: str(self.peid),
            entity.KEY: self.key,
            entity.NAME: self.name,
            entity.CATEGORIES: list(self.categories),
        }
        return shown if self.distance is None else {**shown, _DISTANCE: self.distance}


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The first entities of a result, and how many there are in all."""

    version: int
    count: int
    entities: tuple[FoundEntity, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "version": self.version,
            "count": self.count,
            "entities": [one.as_json() for one in self.entities],
        }


def find_entities(world: SearchedWorld, query: EntityQuery) -> SearchResult:
    """Return the entities of the world that the query selects."""
    levels = np.zeros(len(world), np.uint8)
    if query.text is not None:
        levels = match_levels(world, query.text)
    chosen = levels != NO_MATCH
    if query.category is not None:
        chosen &= world.categories.mask(world.categories.matched(query.category))
    rows = np.flatnonzero(chosen)
    distances = None
    if query.near is not None:
        distances = distances_from(world, query.near, rows)
        if query.within is not None:
            close = distances <= query.within
            rows, distances = rows[close], distances[close]
    first = _first(world, rows, levels[rows], distances, query.limit)
    taken = rows[first]
    found = _entities(world, taken, None if distances is None else distances[first])
    return SearchResult(world.facts.version, len(rows), found)


def _first(
    world: SearchedWorld,
    rows: Rows,
    levels: NDArray[np.uint8],
    distances: NDArray[np.float64] | None,
    limit: int,
) -> Rows:
    """Return places in ``rows`` of the first entities, in their order.

    By distance, then level, then short names before long ones, then name, then peid.
    """
    folded = world.folded_names.take(pa.array(rows))
    lengths = pc.utf8_length(folded)
    # Entities without a name come after those with one.
    lengths = pc.if_else(pc.equal(lengths, 0), pa.scalar(np.iinfo(np.int32).max), lengths)
    columns = {
        _LEVEL: pa.array(levels),
        _LENGTH: lengths,
        _FOLDED: folded,
        entity.PEID: pa.array(world.peids[rows]),
    }
    if distances is not None:
        columns = {_DISTANCE: pa.array(distances), **columns}
    table = pa.table(columns)
    keys = [(name, "ascending") for name in columns]
    if 0 < limit < len(rows):
        order = pc.select_k_unstable(table, limit, sort_keys=keys)
    else:
        order = pc.sort_indices(table, sort_keys=keys)
    places: Rows = order.to_numpy().astype(np.int64)
    return places


def _entities(
    world: SearchedWorld, rows: Rows, distances: NDArray[np.float64] | None
) -> tuple[FoundEntity, ...]:
    taken = world.rows.take(pa.array(rows)).to_pylist()
    return tuple(
        FoundEntity(
            peid=row[entity.PEID],
            # An entity of before there were keys has its decimal peid.
            key=row[entity.KEY] or str(row[entity.PEID]),
            name=row[entity.NAME],
            categories=tuple(row[entity.CATEGORIES]),
            distance=None if distances is None else float(distances[number]),
        )
        for number, row in enumerate(taken)
    )


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
