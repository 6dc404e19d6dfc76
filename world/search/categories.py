"""The categories of a world version: which a pattern selects, and how many entities each has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
Mask: TypeAlias = NDArray[np.bool_]


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


@dataclass(frozen=True, slots=True)
class CodedCategories:
    """The categories of all entities, as codes into ``names``.

    Those of the entity in row i are ``codes[offsets[i]:offsets[i + 1]]``.
    """

    names: tuple[str, ...]
    offsets: NDArray[np.int64]
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> CodedCategories:
        """Return the categories of a column of lists."""
        lists = one_array(column.cast(pa.list_(pa.string())))
        coded = lists.flatten().dictionary_encode()
        lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
        return cls(
            names=tuple(coded.dictionary.to_pylist()),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            codes=coded.indices.to_numpy().astype(np.int32),
        )

    def rows(self) -> NDArray[np.int64]:
        """Return the row of each code."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def mask(self, wanted: NDArray[np.bool_]) -> Mask:
        """Return which entities have a category whose place in ``wanted`` is true."""
        hits = np.concatenate([[0], np.cumsum(wanted[self.codes])])
        mask: Mask = np.diff(hits[self.offsets]) > 0
        return mask

    def matched(self, pattern: str) -> NDArray[np.bool_]:
        """Return which names the pattern selects; SearchError if it selects none."""
        wanted = np.zeros(len(self.names), np.bool_)
        wanted[list(CategoryTree(self.names).codes([pattern]))] = True
        if len(self.names) and not wanted.any():
            raise no_category(pattern, self.names)
        return wanted


@dataclass(frozen=True, slots=True)
class CategoryCount:
    """A category or a level above categories.

    ``entities`` have this category or one below it; ``here`` of them have exactly this one. An
    entity with several categories counts once at each place.
    """

    category: str
    entities: int
    here: int

    @property
    def depth(self) -> int:
        """The number of levels above this one."""
        return self.category.count(SEPARATOR)

    def as_json(self) -> dict[str, Any]:
        """Return the count for JSON."""
        return {"category": self.category, "entities": self.entities, "here": self.here}


def count_categories(
    categories: CodedCategories, pattern: str | None = None, levels: int = 0
) -> list[CategoryCount]:
    """Return all places of the tree that the pattern selects, in the order of the tree.

    ``levels`` limits the depth of the tree; 0 does not.
    """
    places = places_of(categories.names)
    if pattern is not None:
        chosen = CategoryTree(places).codes([checked_pattern(pattern)])
        if not chosen:
            raise no_category(pattern, categories.names)
    else:
        chosen = tuple(range(len(places)))
    here = np.bincount(categories.codes, minlength=len(categories.names))
    own = dict(zip(categories.names, here.tolist(), strict=True))
    below = _entities_below(categories, places)
    return [
        CategoryCount(places[code], below[code], own.get(places[code], 0))
        for code in chosen
        if not levels or places[code].count(SEPARATOR) < levels
    ]


def _entities_below(categories: CodedCategories, places: list[str]) -> list[int]:
    """Return for each place how many entities have a category there or below, each once."""
    number_of = {place: number for number, place in enumerate(places)}
    deepest = max((name.count(SEPARATOR) + 1 for name in categories.names), default=0)
    rows = categories.rows()
    counts = np.zeros(len(places), np.int64)
    for depth in range(1, deepest + 1):
        place_of_code = np.array(
            [number_of.get(_cut(name, depth), -1) for name in categories.names], np.int64
        )
        place = place_of_code[categories.codes]
        known = place >= 0
        pairs = np.unique(rows[known] * len(places) + place[known])
        counts += np.bincount(pairs % len(places), minlength=len(places))
    return [int(count) for count in counts]


def _cut(name: str, depth: int) -> str:
    """Return the first levels of a category; "" if it has fewer."""
    levels = name.split(SEPARATOR)
    return SEPARATOR.join(levels[:depth]) if len(levels) >= depth else ""


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array without a copy where it has one chunk."""
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column
