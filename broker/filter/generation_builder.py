"""The next generation of memberships, built beside the one in force."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from broker.filter.memberships import SlotSizes
from broker.filter.peid_table import AIMED_PAIRS, RESIDUES, PeidTable, SlotArray
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
    """Return the regions of pairs, which are all those of some residues, in any order."""
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
    """Makes a table of blocks, given in the order of their residues."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._peids: list[array[int]] = []
        self._slots: list[array[int]] = []

    def add(self, block: RegionBlock) -> None:
        """Copy the regions of one block."""
        cuts = [0, *np.cumsum(block.sizes).tolist()]
        peids, slots = array("q", block.peids.tobytes()), array("I", block.slots.tobytes())
        for start, stop in pairwise(cuts):
            # A slice has no memory to spare: two tables are in memory now.
            self._peids.append(peids[start:stop])
            self._slots.append(slots[start:stop])
        self._starts += block.starts.tolist()

    def finish(self, counts: NDArray[np.uint32]) -> PeidTable:
        """Return the table; ``counts`` are the numbers of pairs by slot."""
        if not self._starts:
            return PeidTable()
        # Residues without pairs belong to the region before them, the first ones to the first.
        self._starts[0] = 0
        sizes = SlotSizes.of(counts)
        return PeidTable.of_regions(self._starts, self._peids, self._slots, sizes)


def table_of_pairs(peids: Int64s, slots: SlotArray) -> PeidTable:
    """Return a table of these pairs."""
    assembly = TableAssembly()
    assembly.add(cut_into_regions(peids, slots))
    return assembly.finish(np.bincount(slots).astype(np.uint32))


class GenerationBuilder:
    """Collects the pairs of a generation. All but ``build`` is called on the event loop.

    ``is_other_world``: it is built for another world version than the one in force, in which
    subscriptions may have other members.
    """

    def __init__(self, *, is_other_world: bool = False) -> None:
        self.is_other_world = is_other_world
        self._peids: list[Int64s] = []
        self._slots: list[SlotArray] = []
        self._named: set[int] = set()
        self._table: PeidTable | None = None
        # Members of subscriptions that were added meanwhile, by slot, and how many of the first
        # slot's are in the table.
        self.late: dict[int, Int64s] = {}
        self._folded = 0
        # Slots that were added meanwhile and whose members in the coming world are not known.
        self.unsettled: set[int] = set()
        # Every slot that was added meanwhile.
        self.arrived: set[int] = set()

    def add(self, slot: int, peids: Int64s) -> None:
        """Enter a subscription's distinct members, instead of those it was added with live."""
        self._forget_late(slot)
        if self._table is not None and slot in self._named:
            raise ValueError("the members of this slot are in the table already")
        self._named.add(slot)
        if self._table is None:
            self.add_pairs(peids, np.full(len(peids), slot, np.uint32))
        else:
            self.late[slot] = peids

    def add_pairs(self, peids: Int64s, slots: SlotArray) -> None:
        """Enter pairs of any subscriptions, none of them twice, before there is a table."""
        self._peids.append(peids)
        self._slots.append(slots)

    def note_late(self, slot: int, peids: Int64s, coming: Int64s | None) -> None:
        """Note a subscription that was added while this generation is built."""
        self.arrived.add(slot)
        if slot in self._named:
            return
        members = coming if self.is_other_world else peids
        if members is None:
            self.unsettled.add(slot)
        else:
            self.late[slot] = members

    def take_pairs(self) -> tuple[Int64s, SlotArray]:
        """Return all pairs entered so far, late subscriptions too, to make the table of."""
        for slot, peids in list(self.late.items()):
            self.add(slot, peids)
        peids = np.concatenate([np.empty(0, np.int64), *self._peids])
        slots = np.concatenate([np.empty(0, np.uint32), *self._slots])
        self._peids, self._slots = [], []
        return peids, slots

    def use(self, table: PeidTable) -> None:
        """Take the table of what ``take_pairs`` gave, and of what was read beside it."""
        self._table = table

    def build(self) -> PeidTable:
        """Return the table of everything entered so far; made now unless there is one."""
        if self._table is None:
            self._table = table_of_pairs(*self.take_pairs())
        return self._table

    def fold_late(self, most: int) -> bool:
        """Enter up to ``most`` members of late subscriptions; return whether more are left.

        So a switch has little to do, however many came while the table was made.
        """
        table = self.build()
        if not self.late:
            return False
        slot, peids = next(iter(self.late.items()))
        table.add(slot, peids[self._folded : self._folded + most])
        self._folded += most
        if self._folded >= len(peids):
            del self.late[slot]
            self._named.add(slot)
            self._folded = 0
        return bool(self.late)

    def _forget_late(self, slot: int) -> None:
        if self._folded and slot == next(iter(self.late)):
            raise ValueError("a late subscription is entered in part already")
        self.late.pop(slot, None)
        self.unsettled.discard(slot)
