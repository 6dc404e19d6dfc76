"""A table of memberships put together out of blocks, each ready to be taken as it is.

Sorting millions of pairs is done elsewhere, in another process or thread. What is left to the
event loop is to copy regions, some at a time, between the messages of clients.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from broker.filter.peid_table import AIMED_PAIRS, RESIDUES, PeidTable, SlotArray
from broker.filter.slot_sizes import SlotSizes
from spatial_udfs.entity_table import Int64s


@dataclass(frozen=True, slots=True, eq=False)
class RegionBlock:
    """Pairs of a range of residues, region by region, in each by peid and slot.

    ``starts`` are the first residues of the regions, ``sizes`` their numbers of pairs.
    """

    starts: Int64s
    sizes: Int64s
    peids: Int64s
    slots: SlotArray


def cut_into_regions(peids: Int64s, slots: SlotArray) -> RegionBlock:
    """All pairs of some residues, given in any order."""
    if not len(peids):
        empty = np.empty(0, np.int64)
        return RegionBlock(empty, empty, empty, np.empty(0, np.uint32))
    residues = peids % RESIDUES
    lowest = int(residues.min())
    counts = np.bincount(residues - lowest)
    before = np.cumsum(counts) - counts
    _, firsts, regions = np.unique(before // AIMED_PAIRS, return_index=True, return_inverse=True)
    of_pair = regions[residues - lowest]
    order = np.lexsort((slots, peids, of_pair))
    sizes = np.bincount(of_pair, minlength=len(firsts))
    return RegionBlock(
        firsts + lowest, sizes, peids[order], slots[order].astype(np.uint32, copy=False)
    )


class TableAssembly:
    """Takes blocks in the order of their residues."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._peids: list[array[int]] = []
        self._slots: list[array[int]] = []

    def add(self, block: RegionBlock) -> None:
        """Copy the regions of one block."""
        cuts = [0, *np.cumsum(block.sizes).tolist()]
        peids, slots = array("q", block.peids.tobytes()), array("I", block.slots.tobytes())
        for start, stop in pairwise(cuts):
            # A slice takes no more than it holds: two tables are in memory now.
            self._peids.append(peids[start:stop])
            self._slots.append(slots[start:stop])
        self._starts += block.starts.tolist()

    def finish(self, counts: NDArray[np.uint32]) -> PeidTable:
        """The table; ``counts`` are the numbers of pairs by slot."""
        if not self._starts:
            return PeidTable()
        # Residues without pairs belong to the region before them, the first ones to the first.
        self._starts[0] = 0
        sizes = SlotSizes.of(counts)
        return PeidTable.of_regions(self._starts, self._peids, self._slots, sizes)


def table_of_pairs(peids: Int64s, slots: SlotArray) -> PeidTable:
    """A table of given pairs, made in one go."""
    assembly = TableAssembly()
    assembly.add(cut_into_regions(peids, slots))
    return assembly.finish(np.bincount(slots).astype(np.uint32))
