"""Mode ``redis``: memberships of the generation stay in Redis, those that came later are here.

The sets of a generation never change while it is in force, so what was read of them may be
remembered until the next switch. Subscriptions that the generation does not hold yet are kept
in this process, as in memory mode, until a generation holds them: the next look-up finds a new
subscription, whatever is remembered (docs/decisions/0083).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from broker.filter.generation_builder import GenerationBuilder
from broker.filter.memberships import SlotOwner, Slots
from broker.filter.memberships_memory import MemoryMemberships
from spatial_udfs.entity_table import Int64s

MOST_ENTITIES: Final = 200_000
MOST_SLOTS: Final = 4_000_000
# So much is forgotten at a time when the memory is full, the longest remembered first.
FORGOTTEN_FRACTION: Final = 8


class RedisMemberships:
    """Remembered sets of Redis. ``look_up`` gives None for an entity whose set must be read."""

    serves_neighborhoods = True

    def __init__(self, most_entities: int = MOST_ENTITIES, most_slots: int = MOST_SLOTS) -> None:
        self._most_entities = most_entities
        self._most_slots = most_slots
        # The generation whose sets are read; None: there is none, and everything is here.
        self.generation: int | None = None
        self.reusable: list[int] = []
        self.slot_owners: list[SlotOwner] = []
        self._late = MemoryMemberships(self.slot_owners)
        self._has_late = False
        self._remembered: dict[int, Slots] = {}
        self._remembered_slots = 0
        # Slots that are gone but for what is remembered, and the pass that looks for them.
        self._leaving: list[int] = []
        self._dying: frozenset[int] = frozenset()
        self._to_clean: Iterator[int] = iter(())
        self.look_up_function = self._make_look_up()

    def __len__(self) -> int:
        """Return the number of entities that are remembered."""
        return len(self._remembered)

    @property
    def pairs(self) -> int:
        """The pairs that the generation does not hold yet; the others are in Redis."""
        return self._late.pairs

    def look_up(self, peid: int) -> Slots | None:
        """Return the slots that hold the entity; None: its set must be read first."""
        return self.look_up_function(peid)

    def add(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:
        """Enter a subscription with its members."""
        self._late.add(slot, peids, coming)
        self._look_at_late()

    def begin(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:
        """Announce members that are entered in chunks."""
        self._late.begin(slot, peids, coming)

    def is_outdated(self, slot: int) -> bool:
        """Return whether another world came into force since the members were announced."""
        return self._late.is_outdated(slot)

    def add_some(self, slot: int, most: int) -> bool:
        """Enter some of the announced members; return whether all are entered now."""
        self._look_at_late()
        return self._late.add_some(slot, most)

    def size_of(self, slot: int) -> int:
        """Return the number of pairs that a subscription has here, and not in Redis."""
        return self._late.size_of(slot)

    def remove(self, slot: int) -> None:
        """Remove a subscription."""
        self._late.remove(slot)

    def sweep(self, budget: int) -> bool:
        """Clean a little: first the pairs in this process, then what is remembered of Redis."""
        has_more = self._late.sweep(budget)
        self._leaving += self._late.reusable
        self._late.reusable.clear()
        if not self._dying and self._leaving:
            self._dying = frozenset(self._leaving)
            self._leaving.clear()
            self._to_clean = iter(list(self._remembered))
        if self._dying:
            self._clean(budget)
        return has_more or bool(self._dying)

    def keep(self, generation: int, found: Mapping[int, Slots]) -> dict[int, Slots]:
        """Remember what was read of a generation's sets; return the complete answers."""
        found = {peid: self._with_owner(slots) for peid, slots in found.items()}
        if generation == self.generation:
            self._make_room(len(found), sum(map(len, found.values())))
            for peid, slots in found.items():
                self._forget(peid)
                self._remembered[peid] = slots
                self._remembered_slots += len(slots)
        late = self._late.look_up
        return {peid: _merged(slots, late(peid)) for peid, slots in found.items()}

    def _with_owner(self, slots: Slots) -> Slots:
        """Return the owner of a single slot, which is a sequence too."""
        if len(slots) == 1 and slots[0] < len(self.slot_owners):
            return self.slot_owners[slots[0]]
        return slots

    # --- another generation

    def begin_generation(self, *, is_other_world: bool = False) -> GenerationBuilder:
        """Start to collect the subscriptions that another generation does not hold."""
        return self._late.begin_generation(is_other_world=is_other_world)

    def abandon(self) -> None:
        """Stay with the generation in force."""
        self._late.abandon()

    def switch(self, builder: GenerationBuilder, generation: int | None) -> None:
        """Filter by another generation from now on, and by what was collected beside it."""
        self._late.switch(builder)
        self._has_late = len(self._late) > 0
        self.generation = generation
        self._remembered = {}
        self._remembered_slots = 0
        self._to_clean = iter(())
        self.look_up_function = self._make_look_up()

    # --- what is remembered

    def _look_at_late(self) -> None:
        """Search the pairs in this process too, from now on."""
        if not self._has_late:
            self._has_late = True
            self.look_up_function = self._make_look_up()

    def _make_look_up(self) -> Callable[[int], Slots | None]:
        """Return the look-up as a closure: it runs for every PUBLISH, and attributes cost time."""
        late = self._late.look_up_function
        if self.generation is None:
            return late
        remembered = self._remembered
        if not self._has_late:
            # The generation holds all pairs, as after a rebuild: one look-up, in C.
            return remembered.get

        def look_up(peid: int) -> Slots | None:
            """Return the slots of an entity, ascending."""
            slots = remembered.get(peid)
            return None if slots is None else _merged(slots, late(peid))

        return look_up

    def _make_room(self, entities: int, slots: int) -> None:
        while self._remembered and (
            len(self._remembered) + entities > self._most_entities
            or self._remembered_slots + slots > self._most_slots
        ):
            count = max(1, len(self._remembered) // FORGOTTEN_FRACTION)
            for peid in list(islice(self._remembered, count)):
                self._forget(peid)

    def _forget(self, peid: int) -> None:
        slots = self._remembered.pop(peid, None)
        if slots is not None:
            self._remembered_slots -= len(slots)

    def _clean(self, budget: int) -> None:
        """Forget entities that name a dying slot; when all are checked, the slots are free."""
        seen = list(islice(self._to_clean, budget))
        for peid in seen:
            if not self._dying.isdisjoint(self._remembered.get(peid, ())):
                self._forget(peid)
        if len(seen) < budget:
            self.reusable += self._dying
            self._dying = frozenset()


def _merged(slots: Slots, late: Slots) -> Slots:
    if not late:
        return slots
    return sorted({*slots, *late}) if slots else late
