"""The sets of categories that entities have, numbered: a world has few, however large it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from spatial_udfs.entity_table import Int32s

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
