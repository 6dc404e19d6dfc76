"""Neighborhoods that come and go in a synthetic city, each with about the same number of members.

Each has another reference, and the distance that holds so many entities around it, so that each
must be resolved. The subscriptions that stay are those of the disjoint workload.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Final

import numpy as np
import shapely

from bench.evaluation.workload import SEED, DisjointWorkload
from schemas.language.descriptor_json import parse_descriptor
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver
from world.snapshot import load_snapshot

# References; with more changes than these they come again.
REFERENCES: Final = 600
SAMPLES: Final = 15


@dataclass(frozen=True)
class ResolvedWorkload(DisjointWorkload):
    """The disjoint workload; what comes and goes are neighborhoods of a city."""

    coming: tuple[str, ...] = ()

    def descriptor(self, number: int) -> str:
        """Return the neighborhood of a subscription."""
        if number < self.subscriptions:
            return super().descriptor(number)
        return self.coming[(number - self.subscriptions) % len(self.coming)]


class Nearby:
    """A city in which neighborhoods of a given size are found."""

    def __init__(self, world: str) -> None:
        self.table: EntityTable = load_snapshot(world)
        self._resolver = ExactResolver(self.table)
        rng = np.random.default_rng(SEED)
        self._references = rng.permutation(len(self.table))[:REFERENCES]
        self.around = cache(self._around)

    def _around(self, size: int) -> tuple[tuple[str, ...], int]:
        """Return neighborhoods of about so many members, and the median of what they hold."""
        wanted = min(size, len(self.table) - 1)
        bounds = shapely.bounds(self.table.geometries)
        x, y = (bounds[:, 0] + bounds[:, 2]) / 2, (bounds[:, 1] + bounds[:, 3]) / 2
        metres = np.array([
            np.partition(np.hypot(x - x[place], y - y[place]), wanted)[wanted]
            for place in self._references
        ])  # fmt: skip
        # An entity is nearer than its centre: once more, with what was found.
        for _ in range(2):
            descriptors = tuple(map(_descriptor, self.table.peids[self._references], metres))
            found = median(map(self._count, descriptors[:SAMPLES]))
            metres = metres * min(2.0, (wanted / max(found, 1)) ** 0.5)
        return descriptors, round(found)

    def _count(self, descriptor: str) -> int:
        return len(self._resolver.resolve(parse_descriptor(descriptor)).peids())


def _descriptor(peid: int, metres: float) -> str:
    stages = [{"cats": ["#"], "cond": f"DW{metres:.1f}"}]
    return json.dumps({"refs": [int(peid)], "stages": stages}, separators=(",", ":"))
