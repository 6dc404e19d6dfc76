"""Subscription files for the bulk benchmark: four patterns in equal parts, references by Zipf.

A few zones and stops are asked for by very many, most by few: so it is in a city, and so
it is hard for a join, because the popular ones would fall to one task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from bench.live_patterns import PATTERNS, Descriptor, peids_of
from spatial_udfs.entity_table import EntityTable, Int64s

# The exponent of popularity in many measured systems; 1 is the classic of word counts.
ZIPF_EXPONENT: Final = 1.1


def mixed_descriptors(table: EntityTable, count: int, seed: int) -> Iterator[Descriptor]:
    """As many descriptors, the patterns in turn, each with a reference drawn by Zipf."""
    rng = np.random.default_rng(seed)
    draws: list[tuple[Callable[[int], Descriptor], Int64s]] = []
    for category, descriptor in PATTERNS.values():
        peids = rng.permutation(peids_of(table, category))
        draws.append((descriptor, rng.choice(peids, size=count, p=_popularity(len(peids)))))
    for number in range(count):
        descriptor, references = draws[number % len(draws)]
        yield descriptor(int(references[number]))


def write_subscriptions(path: Path, table: EntityTable, count: int, seed: int) -> None:
    """A subscription file as the contract wants it, subIds from 1."""
    with path.open("w", encoding="utf-8") as file:
        for sub_id, descriptor in enumerate(mixed_descriptors(table, count, seed), start=1):
            line = {"subId": sub_id, "descriptor": descriptor}
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def _popularity(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    weights = 1.0 / np.arange(1, count + 1) ** ZIPF_EXPONENT
    return weights / weights.sum()
