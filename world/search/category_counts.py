"""The category tree of a world version, with the number of entities at each place of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from schemas.language.categories import SEPARATOR, CategoryTree, checked_pattern, places_of
from world.search.no_category import no_category
from world.search.searched_world import CodedCategories


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
