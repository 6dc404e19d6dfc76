"""How well the name, key or category of each entity matches a text."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from schemas import entity
from schemas.errors import SearchError
from schemas.language.categories import SEPARATOR
from schemas.language.limits import MAX_PEID
from world.search.searched_world import SearchedWorld, fold


class MatchLevel(IntEnum):
    """What of an entity matches a text, the best match first."""

    IDENTIFIER = 0  # the text is the peid or the key
    NAME = 1  # the text is the name
    NAME_START = 2  # the name begins with the text
    WORD_START = 3  # words of the name begin with the words of the text
    INSIDE = 4  # the words of the text are inside the name
    KEY = 5  # the text is inside the key
    CATEGORY = 6  # a level of a category begins with the text


NO_MATCH: Final = 255


def match_levels(world: SearchedWorld, text: str) -> NDArray[np.uint8]:
    """Return the MatchLevel of each entity, NO_MATCH for those that do not match."""
    folded = fold(text)
    if not folded:
        raise SearchError(f"nothing to look for: {text!r} has no letter, digit or symbol")
    levels = np.full(len(world), NO_MATCH, np.uint8)
    # From the worst level to the best one, so that the best one stays.
    levels[_with_category(world, folded)] = MatchLevel.CATEGORY
    if world.has_keys:
        levels[_mask(pc.match_substring(world.folded_keys, folded))] = MatchLevel.KEY
    _mark_names(world.folded_names, folded, levels)
    levels[_identified(world, text.strip())] = MatchLevel.IDENTIFIER
    return levels


def _mark_names(names: pa.StringArray, text: str, levels: NDArray[np.uint8]) -> None:
    words = text.split()
    rows = np.arange(len(names))
    for word in words:
        inside = _mask(pc.match_substring(names, word))
        names, rows = names.filter(pa.array(inside)), rows[inside]
    levels[rows] = MatchLevel.INSIDE
    starting = np.ones(len(rows), np.bool_)
    for word in words:
        at_start = _mask(pc.starts_with(names, word))
        starting &= at_start | _mask(pc.match_substring(names, f" {word}"))
    levels[rows[starting]] = MatchLevel.WORD_START
    levels[rows[_mask(pc.starts_with(names, text))]] = MatchLevel.NAME_START
    levels[rows[_mask(pc.equal(names, text))]] = MatchLevel.NAME


def _with_category(world: SearchedWorld, text: str) -> NDArray[np.bool_]:
    wanted = [
        any(fold(level).startswith(text) for level in name.split(SEPARATOR)) or fold(name) == text
        for name in world.categories.names
    ]
    return world.categories.mask(np.array(wanted, np.bool_))


def _identified(world: SearchedWorld, text: str) -> NDArray[np.bool_]:
    mask = np.zeros(len(world), np.bool_)
    if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PEID)):
        mask |= world.peids == np.uint64(int(text))
    if world.has_keys:
        mask |= _mask(pc.equal(world.rows.column(entity.KEY), text))
    return mask


def _mask(matches: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return the matches as an array; a null is no match."""
    mask: NDArray[np.bool_] = pc.fill_null(matches, False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return mask
