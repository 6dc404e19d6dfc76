"""Mode ``memory``: all memberships in this process, and the switch to another generation."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from broker.memberships import Slots
from broker.peid_table import PeidTable, SlotArray
from spatial_udfs.entity_table import Int64s


class _Entering:
    """Members on their way in; the first ``done`` of them are in the table."""

    __slots__ = ("done", "peids")

    def __init__(self, peids: Int64s) -> None:
        self.peids = peids
        self.done = 0


class MemoryMemberships:
    """``look_up`` is the present table's own method, so that a look-up is one call."""

    serves_neighborhoods = True

    def __init__(self) -> None:
        self._table = PeidTable()
        self.look_up: Callable[[int], Slots] = self._table.look_up
        self.reusable: list[int] = []
        self._building: GenerationBuilder | None = None
        # Free slots that the generation under construction may name.
        self._withheld: list[int] = []
        # What is being entered piece by piece, by slot.
        self._entering: dict[int, _Entering] = {}

    def __len__(self) -> int:
        """The number of pairs, those of removed slots included until they are swept."""
        return self._table.pairs

    def add(self, slot: int, peids: Int64s) -> None:
        """Enter a subscription with its members."""
        self._table.add(slot, peids)
        if self._building is not None:
            self._building.note_late(slot, peids)

    def begin(self, slot: int, peids: Int64s) -> None:
        """Announce members that come piece by piece."""
        self._entering[slot] = _Entering(peids)

    def add_some(self, slot: int, most: int) -> bool:
        """Enter some of what was announced; whether that is all of it now."""
        entering = self._entering[slot]
        start, entering.done = entering.done, entering.done + most
        self._table.add(slot, entering.peids[start : entering.done])
        if entering.done < len(entering.peids):
            return False
        del self._entering[slot]
        if self._building is not None:
            self._building.note_late(slot, entering.peids)
        return True

    def remove(self, slot: int) -> None:
        """Take a subscription out: at once for the core, in the table when it is swept."""
        self._entering.pop(slot, None)
        self._table.remove(slot)

    def sweep(self, budget: int) -> bool:
        """Go over up to ``budget`` buckets; whether more is to be done now."""
        if not self._table.wants_pass:
            return False
        freed = self._table.step(budget)
        (self.reusable if self._building is None else self._withheld).extend(freed)
        return self._table.wants_pass

    def begin_generation(self) -> GenerationBuilder:
        """Start to build what shall replace everything; one begun before is given up."""
        self.abandon()
        self._building = GenerationBuilder()
        return self._building

    def abandon(self) -> None:
        """Give up the generation under construction, if there is one."""
        self._building = None
        self.reusable += self._withheld
        self._withheld.clear()

    def switch(self, builder: GenerationBuilder) -> None:
        """Put the built generation in the place of the present one, in one step.

        Subscriptions added while it was built, and that it says nothing about, keep the
        members they were added with.
        """
        if builder is not self._building:
            raise ValueError("this generation was given up")
        table = builder.build()
        for slot, peids in builder.late.items():
            table.add(slot, peids)
        # The new table may name slots that were removed meanwhile: they are dead there too.
        for slot in (*self._table.dead, *self._withheld):
            table.remove(slot)
        # What is half entered begins again in the new table.
        for entering in self._entering.values():
            entering.done = 0
        self._table, self.look_up = table, table.look_up
        self._building = None
        self._withheld.clear()
        give_back_memory()


class GenerationBuilder:
    """Collects the pairs of a generation; ``build`` may run in any thread."""

    def __init__(self) -> None:
        self._peids: list[Int64s] = []
        self._slots: list[SlotArray] = []
        self._named: set[int] = set()
        self._table: PeidTable | None = None
        # Members of subscriptions that were added meanwhile, by slot.
        self.late: dict[int, Int64s] = {}

    def add(self, slot: int, peids: Int64s) -> None:
        """Enter a subscription's distinct members; overrides what it was added with live."""
        if self._table is not None:
            self._table.add(slot, peids)
        else:
            self.add_pairs(peids, np.full(len(peids), slot, np.uint32))
        self._named.add(slot)
        self.late.pop(slot, None)

    def add_pairs(self, peids: Int64s, slots: SlotArray) -> None:
        """Enter pairs of any subscriptions, none of them twice, before ``build``."""
        self._peids.append(peids)
        self._slots.append(slots)
        self._named.update(np.unique(slots).tolist())

    def note_late(self, slot: int, peids: Int64s) -> None:
        """Remember a subscription that was added while this generation is built."""
        if slot not in self._named:
            self.late[slot] = peids

    def fold_late(self) -> None:
        """Take what was added live so far into what is built, so that a switch has less to do."""
        for slot, peids in list(self.late.items()):
            self.add(slot, peids)

    def build(self) -> PeidTable:
        """The table of everything entered so far: the heavy part, done once."""
        if self._table is None:
            peids = np.concatenate([np.empty(0, np.int64), *self._peids])
            slots = np.concatenate([np.empty(0, np.uint32), *self._slots])
            self._peids, self._slots = [], []
            self._table = PeidTable.of_pairs(peids, slots)
        return self._table


def give_back_memory() -> None:
    """Return freed pages to the system, where the C library can.

    A replaced generation leaves millions of bytes free in the middle of the heap, which glibc
    would keep.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
