"""Checks category patterns, and finds the categories that they select.

A pattern matches like an MQTT topic filter, with one difference: a leading ``$`` has no special
meaning. Every character but ``#``, ``+`` and ``/`` stands for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from schemas.errors import DescriptorError
from schemas.language.limits import MAX_CATEGORY_LEVELS

ANY_BELOW: Final = "#"
ONE_LEVEL: Final = "+"
SEPARATOR: Final = "/"
# In a tree with more places no pattern is proposed: comparing would take too long.
MOST_PLACES_COMPARED: Final = 2_000
NEARLY_EQUAL: Final = 0.75


def checked_pattern(pattern: str, stage: int | None = None) -> str:
    """Return the pattern without its trailing ``/``; DescriptorError if it breaks a rule."""
    text = pattern.removesuffix(SEPARATOR)
    if not text:
        raise DescriptorError(
            f"the category pattern {pattern!r} is empty; "
            "allowed: levels separated by '/', such as road/#",
            stage,
        )
    levels = text.split(SEPARATOR)
    if len(levels) > MAX_CATEGORY_LEVELS:
        raise DescriptorError(
            f"a category pattern has {len(levels)} levels; allowed: at most {MAX_CATEGORY_LEVELS}",
            stage,
        )
    for place, level in enumerate(levels, start=1):
        if ANY_BELOW in level and (level != ANY_BELOW or place < len(levels)):
            raise _wildcard_error(pattern, "'#' alone in the last level, such as road/#", stage)
        if ONE_LEVEL in level and level != ONE_LEVEL:
            raise _wildcard_error(pattern, "'+' alone in its level, such as road/+/link", stage)
    return text


def _wildcard_error(pattern: str, allowed: str, stage: int | None) -> DescriptorError:
    shown = repr(pattern if len(pattern) <= 60 else pattern[:57] + "...")
    return DescriptorError(f"the category pattern {shown} is wrong; allowed: {allowed}", stage)


def matching(patterns: Iterable[str], categories: Collection[str]) -> frozenset[str]:
    """Return the categories that at least one of the patterns selects."""
    names = tuple(categories)
    return frozenset(names[code] for code in CategoryTree(names).codes(patterns))


def places_of(categories: Iterable[str]) -> list[str]:
    """Return all places of the category tree: the categories and all levels above them."""
    places: set[str] = set()
    for name in categories:
        levels = name.split(SEPARATOR)
        places.update(SEPARATOR.join(levels[:depth]) for depth in range(1, len(levels) + 1))
    return sorted(places, key=lambda place: place.split(SEPARATOR))


def likely_pattern(pattern: str, categories: Sequence[str]) -> str | None:
    """Return the pattern that was probably meant by one that matches no category; None if unclear.

    It is a place of the tree with the same last level, or one that is written nearly the same.
    """
    levels = pattern.removesuffix(SEPARATOR).split(SEPARATOR)
    words = [level for level in levels if level not in (ANY_BELOW, ONE_LEVEL, "")]
    places = places_of(categories)
    if not words or len(places) > MOST_PLACES_COMPARED:
        return None
    # What is written with the same case goes first.
    places.sort(key=lambda place: place.split(SEPARATOR)[-1] != words[-1])
    wanted, last = SEPARATOR.join(words).casefold(), words[-1].casefold()
    found = [place for place in places if place.casefold() == wanted]
    found += [place for place in places if place.casefold().split(SEPARATOR)[-1] == last]
    if not found:
        # A whole place goes before a last level.
        written = {place.casefold().split(SEPARATOR)[-1]: place for place in reversed(places)}
        written |= {place.casefold(): place for place in reversed(places)}
        near = get_close_matches(wanted, list(written), 1, NEARLY_EQUAL)
        found = [written[place] for place in near]
    if not found:
        return None
    return found[0] if found[0] in categories and ANY_BELOW not in levels else f"{found[0]}/#"


@dataclass(slots=True)
class _Node:
    code: int | None = None
    below: dict[str, _Node] = field(default_factory=dict)


class CategoryTree:
    """The categories of a world version by level: patterns are looked up without a scan."""

    def __init__(self, names: Iterable[str]) -> None:
        """Build the tree; the code of a category is its position in ``names``."""
        self.names: Final = tuple(names)
        self._root = _Node()
        for code, name in enumerate(self.names):
            node = self._root
            for level in name.split(SEPARATOR):
                node = node.below.setdefault(level, _Node())
            node.code = code

    def codes(self, patterns: Iterable[str]) -> tuple[int, ...]:
        """Return the codes of the categories that at least one pattern selects, ascending."""
        found: set[int] = set()
        for pattern in patterns:
            found.update(self._codes_of(checked_pattern(pattern)))
        return tuple(sorted(found))

    def _codes_of(self, pattern: str) -> Iterable[int]:
        nodes = [self._root]
        for level in pattern.split(SEPARATOR):
            if level == ANY_BELOW:
                nodes = _with_all_below(nodes)
            elif level == ONE_LEVEL:
                nodes = [child for node in nodes for child in node.below.values()]
            else:
                nodes = [node.below[level] for node in nodes if level in node.below]
        return (node.code for node in nodes if node.code is not None)


def _with_all_below(nodes: list[_Node]) -> list[_Node]:
    """Return the nodes and all nodes below them: ``road/#`` selects ``road`` too."""
    reached = list(nodes)
    for node in reached:  # grows while it is walked
        reached.extend(node.below.values())
    return reached
