"""Subscriptions of four patterns in equal parts, with references drawn by Zipf's law.

A few zones and stops have very many subscribers, most have few. That is typical of a city, and
hard for a join: all rows of a popular reference would go to one task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from spatial_udfs.entity_table import EntityTable, Int64s
from testing.neighborhood_patterns import PATTERNS, Descriptor, peids_of

# The exponent of popularity in many measured systems; 1 is the classic of word counts.
ZIPF_EXPONENT: Final = 1.1


def mixed_descriptors(table: EntityTable, count: int, seed: int) -> Iterator[Descriptor]:
    """Yield so many descriptors, the patterns in turn, each with a reference drawn by Zipf."""
    rng = np.random.default_rng(seed)
    draws: list[tuple[Callable[[int], Descriptor], Int64s]] = []
    for category, descriptor in PATTERNS.values():
        peids = rng.permutation(peids_of(table, category))
        draws.append((descriptor, rng.choice(peids, size=count, p=_popularity(len(peids)))))
    for number in range(count):
        descriptor, references = draws[number % len(draws)]
        yield descriptor(int(references[number]))


def write_subscriptions(path: Path, table: EntityTable, count: int, seed: int) -> None:
    """Write a subscription file with subIds from 1."""
    with path.open("w", encoding="utf-8") as file:
        for sub_id, descriptor in enumerate(mixed_descriptors(table, count, seed), start=1):
            line = {"subId": sub_id, "descriptor": descriptor}
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def _popularity(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    weights = 1.0 / np.arange(1, count + 1) ** ZIPF_EXPONENT
    shares: np.ndarray[tuple[int], np.dtype[np.float64]] = weights / weights.sum()
    return shares
