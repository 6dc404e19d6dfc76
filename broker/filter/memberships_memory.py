"""Mode ``memory``: all memberships in this process, and the switch to another generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.filter.generation_builder import GenerationBuilder
from broker.filter.memberships import SlotOwner, Slots
from broker.filter.peid_table import PeidTable
from broker.filter.process_memory import give_back_memory
from spatial_udfs.entity_table import Int64s

# Members of late arrivals that are entered at once when there is nobody to wait for.
_ALL: Final = 1_000_000
# Regions of a replaced table that are let go before their memory is returned: some megabytes, so
# that returning them takes a millisecond or two.
SHED_AT_ONCE: Final = 2_048


class _Entering:
    """Members on their way in; the first ``done`` of them are in the table."""

    __slots__ = ("coming", "done", "is_outdated", "peids")

    def __init__(self, peids: Int64s, coming: Int64s | None) -> None:
        self.peids = peids
        self.coming = coming
        self.done = 0
        self.is_outdated = False


class MemoryMemberships:
    """``look_up`` is the present table's own closure, so that a look-up is one call."""

    serves_neighborhoods = True

    def __init__(self, slot_owners: list[SlotOwner] | None = None) -> None:
        self.slot_owners: list[SlotOwner] = [] if slot_owners is None else slot_owners
        self._table = PeidTable()
        self.look_up: Callable[[int], Slots] = self._table.look_up_by(self.slot_owners)
        self.reusable: list[int] = []
        self._building: GenerationBuilder | None = None
        # Free slots that the generation under construction may name.
        self._withheld: list[int] = []
        # What is being entered piece by piece, by slot.
        self._entering: dict[int, _Entering] = {}
        # Replaced tables that are taken apart in small steps.
        self._replaced: list[PeidTable] = []
        self._shed = 0

    def __len__(self) -> int:
        """The number of pairs, those of removed slots included until they are swept."""
        return self._table.pairs

    def add(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:
        """Enter a subscription with its members."""
        self._table.add(slot, peids)
        if self._building is not None:
            self._building.note_late(slot, peids, coming)

    def begin(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:
        """Announce members that come piece by piece."""
        self._entering[slot] = _Entering(peids, coming)

    def is_outdated(self, slot: int) -> bool:
        """Whether another world came into force since the members were announced."""
        return self._entering[slot].is_outdated

    def add_some(self, slot: int, most: int) -> bool:
        """Enter some of what was announced; whether that is all of it now."""
        entering = self._entering[slot]
        start, entering.done = entering.done, entering.done + most
        self._table.add(slot, entering.peids[start : entering.done])
        if entering.done < len(entering.peids):
            return False
        del self._entering[slot]
        if self._building is not None:
            self._building.note_late(slot, entering.peids, entering.coming)
        return True

    def size_of(self, slot: int) -> int:
        """Return the number of pairs that a subscription has here."""
        return self._table.size_of(slot)

    def remove(self, slot: int) -> None:
        """Take a subscription out: at once for the core, in the table when it is swept."""
        self._entering.pop(slot, None)
        self._table.remove(slot)
        if self._building is not None:
            self._building.unsettled.discard(slot)

    def sweep(self, budget: int) -> bool:
        """Go over up to ``budget`` regions; whether more is to be done now."""
        more = self._tidy(budget)
        if not self._table.wants_pass:
            return more
        freed = self._table.step(budget)
        (self.reusable if self._building is None else self._withheld).extend(freed)
        return self._table.wants_pass or more

    def _tidy(self, budget: int) -> bool:
        """After a switch: take the old table apart, then give the new one room; whether more is.

        A table is loaded without room for newcomers, because two are in memory then.
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
        """Start to build what shall replace everything; one begun before is given up."""
        self.abandon()
        self._building = GenerationBuilder(is_other_world=is_other_world)
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
        if builder.unsettled:
            raise ValueError("members of some subscriptions are not known in the coming world")
        table = builder.build()
        while builder.fold_late(_ALL):
            pass
        # The new table may name slots that were removed meanwhile: they are dead there too.
        for slot in (*self._table.dead, *self._withheld):
            table.remove(slot)
        for entering in self._entering.values():
            # What is half entered begins again in the new table, or must be resolved again.
            entering.done = 0
            entering.is_outdated |= builder.is_other_world
        self._replaced.append(self._table)
        self._table, self.look_up = table, table.look_up_by(self.slot_owners)
        self._building = None
        self._withheld.clear()
