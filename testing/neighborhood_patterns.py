"""The four patterns that live resolving is measured by, with many distinct references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from spatial_udfs.entity_table import EntityTable, Int64s

Descriptor = dict[str, Any]

_ROADS: Final = ["road/#"]
_ZONE: Final = {"cats": _ROADS, "cond": "C"}
_HOPS: Final = {"refStages": "Prev", "cats": _ROADS, "cond": "T", "repeat": 3}
_PARKING: Final = {"refStages": [2, 3, 4], "cats": ["transport/parking"], "cond": "T"}


def _contains(ref: int) -> Descriptor:
    return {"refs": [ref], "stages": [_ZONE]}


def _hops(ref: int) -> Descriptor:
    return {"refs": [ref], "stages": [_ZONE, _HOPS]}


def _parking(ref: int) -> Descriptor:
    return {"refs": [ref], "stages": [_ZONE, _HOPS, _PARKING]}


def _within(ref: int) -> Descriptor:
    return {"refs": [ref], "stages": [{"cats": ["shop/#"], "cond": "DW500"}]}


# Title -> (category of the references, descriptor of one reference).
PATTERNS: Final[Mapping[str, tuple[str, Callable[[int], Descriptor]]]] = {
    "Contains, one stage": ("zone/district", _contains),
    "Contains + 3 hops": ("zone/district", _hops),
    "Contains + 3 hops + parking": ("zone/district", _parking),
    "DWithin 500 m": ("transport/stop/bus", _within),
}


def descriptors(table: EntityTable, title: str, count: int, seed: int) -> list[Descriptor]:
    """Return descriptors of the pattern with distinct references, drawn by the seed."""
    category, descriptor = PATTERNS[title]
    peids = peids_of(table, category)
    rng = np.random.default_rng(seed)
    chosen = rng.choice(peids, size=min(count, len(peids)), replace=False)
    return [descriptor(int(peid)) for peid in chosen]


def peids_of(table: EntityTable, category: str) -> Int64s:
    """Return the entities that stand in exactly this category."""
    code = table.category_names.index(category)
    owners = np.repeat(np.arange(len(table)), np.diff(table.category_offsets))
    peids: Int64s = table.peids[owners[table.category_codes == code]]
    return peids
