"""Categories as numbers: the sets that entities have, and which of them a set of patterns selects.

A world has few different sets of categories, however large it is: they grow with its map key. So
the sets are numbered, the patterns of a batch are matched with them once, by the tree that live
resolving uses too, and a stage looks up numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.language.categories import CategoryTree
from spatial_udfs.entity_table import Bools, Int32s

# Separates the categories of a set: no category has this character.
_BETWEEN: Final = "\x00"

Vocabulary = list[list[str]]


def vocabulary_of(categories: pa.ListArray | pa.ChunkedArray) -> set[tuple[str, ...]]:
    """Return the distinct sets, each in the order of its names."""
    written = pc.unique(_texts(categories)).to_pylist()
    return {_ordered(text) for text in written if text is not None}


def set_numbers(
    categories: pa.ListArray | pa.ChunkedArray, vocabulary: Sequence[Sequence[str]]
) -> Int32s:
    """Return for each entity the position of its categories in the vocabulary."""
    texts = _texts(categories).dictionary_encode()
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    known = {tuple(names): number for number, names in enumerate(vocabulary)}
    numbers = pa.array([known[_ordered(text)] for text in texts.dictionary.to_pylist()], pa.int32())
    found: Int32s = numbers.take(texts.indices).to_numpy(zero_copy_only=False)
    return found


def _texts(categories: pa.ListArray | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return pc.binary_join(categories, _BETWEEN)


def _ordered(text: str) -> tuple[str, ...]:
    return tuple(sorted(set(text.split(_BETWEEN))))


def in_order(sets: Iterable[tuple[str, ...]]) -> Vocabulary:
    """Return the vocabulary in an order that is the same in every run."""
    return [list(names) for names in sorted(set(sets))]


@dataclass(frozen=True, slots=True, eq=False)
class NumberedPatterns:
    """Distinct sets of patterns of a batch, by number."""

    numbers: dict[str, int]  # by text (JSON)
    selected: Bools  # by category set
    names: tuple[frozenset[str], ...]  # the categories that each of them matches


def numbered_patterns(texts: Iterable[str], vocabulary: Vocabulary) -> NumberedPatterns:
    """Number the sets of patterns (texts) and find the category sets that each of them selects."""
    holders: dict[str, list[int]] = {}
    for number, names in enumerate(vocabulary):
        for name in names:
            holders.setdefault(name, []).append(number)
    tree = CategoryTree(sorted(holders))
    distinct = sorted(set(texts))
    selected = np.zeros((len(distinct), len(vocabulary)), np.bool_)
    matched = []
    for number, text in enumerate(distinct):
        found = frozenset(tree.names[code] for code in tree.codes(tuple(json.loads(text))))
        matched.append(found)
        for name in found:
            selected[number, holders[name]] = True
    numbers = {text: number for number, text in enumerate(distinct)}
    return NumberedPatterns(numbers, selected, tuple(matched))
