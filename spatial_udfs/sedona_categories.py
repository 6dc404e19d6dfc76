"""Category patterns as data: which category sets of a world a set of patterns selects.

The vocabulary of a world grows with its map key and not with its size, and the patterns belong
to the batch. So both are matched once, by the tree that live resolving uses too, and what the
joins look up are numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from schemas.categories import CategoryTree
from schemas.related import CATEGORY_SET
from spatial_udfs.sedona_stage_graph import PATTERNS, patterns_text

CATS: Final = "cats"  # int, the number of a set of patterns in this batch


@dataclass(frozen=True, slots=True)
class NumberedPatterns:
    """Distinct sets of patterns of a batch as rows."""

    numbers: pa.Table  # patterns (as one text), cats
    sets: pa.Table  # cats, categorySet: what the patterns select


def numbered_patterns(
    patterns: Iterable[tuple[str, ...]], category_sets: Mapping[int, Iterable[str]]
) -> NumberedPatterns:
    """Number the sets of patterns and say which category sets each of them selects."""
    holders: dict[str, list[int]] = {}
    for number, names in category_sets.items():
        for name in names:
            holders.setdefault(name, []).append(number)
    tree = CategoryTree(sorted(holders))
    distinct = sorted(set(patterns))
    cats, selected = [], []
    for number, wanted in enumerate(distinct, start=1):
        found = {place for code in tree.codes(wanted) for place in holders[tree.names[code]]}
        cats.extend([number] * len(found))
        selected.extend(sorted(found))
    numbers = range(1, len(distinct) + 1)
    return NumberedPatterns(
        pa.table(
            {
                PATTERNS: pa.array(map(patterns_text, distinct), pa.string()),
                CATS: pa.array(numbers, pa.int32()),
            }
        ),
        pa.table({CATS: pa.array(cats, pa.int32()), CATEGORY_SET: pa.array(selected, pa.int32())}),
    )
