"""The next generation of memberships while it is put together beside the one in force."""

from __future__ import annotations

import numpy as np

from broker.filter.peid_table import PeidTable, SlotArray
from broker.filter.table_assembly import table_of_pairs
from spatial_udfs.entity_table import Int64s


class GenerationBuilder:
    """Collects the pairs of a generation. All but ``build`` is called on the event loop.

    ``is_other_world``: it is built for another world version than the one in force, so what
    subscriptions hold now says nothing about what they will hold.
    """

    def __init__(self, *, is_other_world: bool = False) -> None:
        self.is_other_world = is_other_world
        self._peids: list[Int64s] = []
        self._slots: list[SlotArray] = []
        self._named: set[int] = set()
        self._table: PeidTable | None = None
        # Members of subscriptions that were added meanwhile, by slot; those entered already.
        self.late: dict[int, Int64s] = {}
        self._folded = 0
        # Slots that were added meanwhile and whose members in the coming world nobody knows.
        self.unsettled: set[int] = set()
        # Every slot that was added meanwhile.
        self.arrived: set[int] = set()

    def add(self, slot: int, peids: Int64s) -> None:
        """Enter a subscription's distinct members; overrides what it was added with live."""
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
        """Remember a subscription that was added while this generation is built."""
        self.arrived.add(slot)
        if slot in self._named:
            return
        members = coming if self.is_other_world else peids
        if members is None:
            self.unsettled.add(slot)
        else:
            self.late[slot] = members

    def take_pairs(self) -> tuple[Int64s, SlotArray]:
        """Everything entered so far, for whoever makes the table; late arrivals too."""
        for slot, peids in list(self.late.items()):
            self.add(slot, peids)
        peids = np.concatenate([np.empty(0, np.int64), *self._peids])
        slots = np.concatenate([np.empty(0, np.uint32), *self._slots])
        self._peids, self._slots = [], []
        return peids, slots

    def use(self, table: PeidTable) -> None:
        """The table of what ``take_pairs`` gave, and of what was read beside it."""
        self._table = table

    def build(self) -> PeidTable:
        """The table of everything entered so far; made now unless there is one."""
        if self._table is None:
            self._table = table_of_pairs(*self.take_pairs())
        return self._table

    def fold_late(self, most: int) -> bool:
        """Enter up to ``most`` members of late arrivals into the table; whether more are left.

        So that a switch has little to do, however many came while the table was made.
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
            raise ValueError("a late arrival is entered in part already")
        self.late.pop(slot, None)
        self.unsettled.discard(slot)
