"""Category patterns as data: which category sets of a world a set of patterns selects.

The vocabulary of a world grows with its map key and not with its size, and the patterns belong
to the batch. So both are matched once, by the tree that live resolving uses too, and a stage
looks up numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from schemas.language.categories import CategoryTree
from spatial_udfs.bulk.category_sets import Vocabulary
from spatial_udfs.entity_table import Bools


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
