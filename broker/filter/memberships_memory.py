"""Mode ``memory``: all memberships in this process, and the switch to another generation."""

from __future__ import annotations

import ctypes
from typing import Final

from broker.filter.generation_builder import GenerationBuilder
from broker.filter.memberships import SlotOwner, Slots
from broker.filter.peid_table import PeidTable
from spatial_udfs.entity_table import Int64s

# Members of late subscriptions that are entered at once when nobody has to wait for it.
_ALL: Final = 1_000_000
# Regions of a replaced table that are freed before their memory is returned to the system: some
# megabytes, so that returning them takes a millisecond or two.
SHED_AT_ONCE: Final = 2_048


class _AnnouncedMembers:
    """Members that are entered in chunks; the first ``done`` of them are in the table."""

    __slots__ = ("coming", "done", "is_outdated", "peids")

    def __init__(self, peids: Int64s, coming: Int64s | None) -> None:
        self.peids = peids
        self.coming = coming
        self.done = 0
        self.is_outdated = False


class MemoryMemberships:
    """A table of all pairs of peid and slot, and the table that shall replace it."""

    serves_neighborhoods = True

    def __init__(self, slot_owners: list[SlotOwner] | None = None) -> None:
        self.slot_owners: list[SlotOwner] = [] if slot_owners is None else slot_owners
        self._table = PeidTable()
        self.look_up_function = self._table.look_up_by(self.slot_owners)
        self.reusable: list[int] = []
        self._building: GenerationBuilder | None = None
        # Free slots that the generation under construction may name.
        self._withheld: list[int] = []
        # Members that are being entered in chunks, by slot.
        self._announced: dict[int, _AnnouncedMembers] = {}
        # Replaced tables that are freed in small steps.
        self._replaced: list[PeidTable] = []
        self._shed = 0

    def __len__(self) -> int:
        """Return the number of pairs, those of removed slots included until they are swept."""
        return self._table.pairs

    @property
    def pairs(self) -> int:
        """The pairs in force: without those of removed slots and of slots half entered."""
        half_entered = sum(announced.done for announced in self._announced.values())
        return self._table.pairs - self._table.dead_pairs - half_entered

    def look_up(self, peid: int) -> Slots:
        """Return the slots that hold the entity."""
        return self.look_up_function(peid)

    def add(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:
        """Enter a subscription with its members."""
        self._table.add(slot, peids)
        if self._building is not None:
            self._building.note_late(slot, peids, coming)

    def begin(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:
        """Announce members that are entered in chunks."""
        self._announced[slot] = _AnnouncedMembers(peids, coming)

    def is_outdated(self, slot: int) -> bool:
        """Return whether another world came into force since the members were announced."""
        return self._announced[slot].is_outdated

    def add_some(self, slot: int, most: int) -> bool:
        """Enter some of the announced members; return whether all are entered now."""
        announced = self._announced[slot]
        start, announced.done = announced.done, announced.done + most
        self._table.add(slot, announced.peids[start : announced.done])
        if announced.done < len(announced.peids):
            return False
        del self._announced[slot]
        if self._building is not None:
            self._building.note_late(slot, announced.peids, announced.coming)
        return True

    def size_of(self, slot: int) -> int:
        """Return the number of pairs that a subscription has here."""
        return self._table.size_of(slot)

    def remove(self, slot: int) -> None:
        """Remove a subscription: at once for the core, from the table when it is swept."""
        self._announced.pop(slot, None)
        self._table.remove(slot)
        if self._building is not None:
            self._building.unsettled.discard(slot)

    def sweep(self, budget: int) -> bool:
        """Clean up to ``budget`` regions; return whether more is to be done now."""
        more = self._tidy(budget)
        if not self._table.wants_pass:
            return more
        freed = self._table.step(budget)
        (self.reusable if self._building is None else self._withheld).extend(freed)
        return self._table.wants_pass or more

    def _tidy(self, budget: int) -> bool:
        """Free the table before the last switch, then give the new one room to grow.

        A table is loaded without such room, because two are in memory then. Return whether
        more is to be done.
        """
        if self._replaced:
            self._shed += budget
            if not self._replaced[-1].shed(budget):
                self._replaced.pop()
            if not self._replaced or self._shed >= SHED_AT_ONCE:
                self._shed = 0
                give_back_memory()
            return True
        if not self._table.is_tight:
            return False
        if not self._table.loosen(2 * budget):
            give_back_memory()
        return self._table.is_tight

    def begin_generation(self, *, is_other_world: bool = False) -> GenerationBuilder:
        """Start to build the next generation; one begun before is abandoned."""
        self.abandon()
        self._building = GenerationBuilder(is_other_world=is_other_world)
        return self._building

    def abandon(self) -> None:
        """Abandon the generation under construction, if there is one."""
        self._building = None
        self.reusable += self._withheld
        self._withheld.clear()

    def switch(self, builder: GenerationBuilder) -> None:
        """Replace the present generation by the built one, in one step.

        Subscriptions added while it was built, and that it does not hold, keep the members
        that they were added with.
        """
        if builder is not self._building:
            raise ValueError("this generation was abandoned")
        if builder.unsettled:
            raise ValueError("members of some subscriptions are not known in the coming world")
        table = builder.build()
        while builder.fold_late(_ALL):
            pass
        # The new table may name slots that were removed meanwhile: they are dead there too.
        for slot in (*self._table.dead, *self._withheld):
            table.remove(slot)
        for announced in self._announced.values():
            # What is half entered begins again in the new table, or must be resolved again.
            announced.done = 0
            announced.is_outdated |= builder.is_other_world
        self._replaced.append(self._table)
        self._table = table
        self.look_up_function = table.look_up_by(self.slot_owners)
        self._building = None
        self._withheld.clear()


def give_back_memory() -> None:
    """Return freed pages to the system, where the C library can.

    A replaced generation leaves millions of bytes free in the middle of the heap, which glibc
    would keep.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
