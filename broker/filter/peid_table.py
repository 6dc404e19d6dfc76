"""A compact hash table peid → slots, for memory mode.

Peids fall into residues of a prime, residues into *regions*: two flat arrays (peids and slots)
with at most some hundred pairs, sorted by peid. A look-up is one division and one bisection,
done in C. A region that grows too large is cut in two; nothing else ever moves.
docs/decisions/0062-compact-memberships.md has the reasons and the costs.

A removed slot is only marked as dead. A *pass* goes over the regions in small steps and removes
dead pairs, so cleaning never delays the broker for long.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from broker.filter.memberships import SlotOwner, Slots, SlotSizes
from spatial_udfs.entity_table import Int64s

SlotArray: TypeAlias = NDArray[np.uint32]

# A prime, because peids often share digits or bits. As many regions as this can exist, so a
# hundred million pairs still lie in regions of some hundred.
RESIDUES: Final = 131_071
# Fewer pairs for each region cost memory (an array has its own price), more cost time.
MOST_PAIRS: Final = 448
AIMED_PAIRS: Final = 320
# Answers that are remembered: entities that are published about now, also those without pairs.
# 10 MB when each lies in one neighborhood, 30 MB at most (docs/decisions/0065-recent-look-ups.md).
MOST_RECENT: Final = 131_072
# An entity that lies in very many neighborhoods is looked up each time: its answer is large.
MOST_SLOTS_REMEMBERED: Final = 8
# Dead pairs, or dead slots, beyond which a pass is made.
DEAD_FRACTION: Final = 8
LEAST_DEAD: Final = 4_096


class PeidTable:
    """Pairs of peid and slot; dead slots may still be found until a pass has ended."""

    __slots__ = (
        "_alive", "_cleaned", "_directory", "_dying", "_ends", "_highest", "_peids", "_recent",
        "_sizes", "_slots", "_starts", "_tight", "dead", "dead_pairs", "pairs",
    )  # fmt: skip

    def __init__(self) -> None:
        # Region by residue, and the consecutive residues of each region.
        self._directory = array("I", bytes(4 * RESIDUES))
        self._starts = array("I", [0])
        self._ends = array("I", [RESIDUES])
        self._peids: list[array[int]] = [array("q")]
        self._slots: list[array[int]] = [array("I")]
        # Number of peids by slot.
        self._sizes = SlotSizes()
        self._highest = -1
        self.dead: set[int] = set()
        self.pairs = 0
        self.dead_pairs = 0
        # The present pass: regions below ``_cleaned`` are without the dying slots.
        self._cleaned = 0
        self._dying: frozenset[int] = frozenset()
        self._alive: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._recent: dict[int, Slots] = {}
        # So many of the first regions have no memory to spare.
        self._tight = 0

    @classmethod
    def of_regions(
        cls,
        starts: list[int],
        peids: list[array[int]],
        slots: list[array[int]],
        sizes: SlotSizes,
    ) -> PeidTable:
        """Return a table of regions that are made already; ``starts`` ascend from 0."""
        table = cls()
        table.pairs = sum(map(len, slots))
        table._sizes = sizes
        table._highest = sizes.highest
        ends = [*starts[1:], RESIDUES]
        widths = np.array(ends) - np.array(starts)
        regions = np.repeat(np.arange(len(starts), dtype=np.uint32), widths)
        table._directory[:] = array("I", regions.tobytes())
        table._starts, table._ends = array("I", starts), array("I", ends)
        table._peids, table._slots, table._tight = peids, slots, len(starts)
        return table

    def add(self, slot: int, peids: Int64s) -> None:
        """Enter distinct peids of a slot, none of which it has already."""
        all_peids, all_slots = self._peids, self._slots
        # Slots of one peid ascend; only a slot that is used again is not the last.
        is_last = slot >= self._highest
        self._highest = max(self._highest, slot)
        members, residues = peids.tolist(), peids % RESIDUES
        regions = self._regions_of(residues)
        for place, peid in enumerate(members):
            region = regions[place]
            region_peids = all_peids[region]
            region_slots = all_slots[region]
            at = bisect_right(region_peids, peid)
            if not is_last:
                while at and region_slots[at - 1] > slot and region_peids[at - 1] == peid:
                    at -= 1
            region_peids.insert(at, peid)
            region_slots.insert(at, slot)
            if len(region_peids) > MOST_PAIRS and self._cut(region):
                regions = self._regions_of(residues)
        if recent := self._recent:
            for peid in recent.keys() & members:
                del recent[peid]
        self._sizes.add(slot, len(peids))
        self.pairs += len(peids)

    def look_up_by(self, slot_owners: Sequence[SlotOwner]) -> Callable[[int], Slots]:
        """Return the look-up as a closure: it runs for every PUBLISH, and attributes cost time."""
        directory, all_peids, all_slots = self._directory, self._peids, self._slots
        recent = self._recent

        def look_up(peid: int) -> Slots:
            """Return the slots of an entity, ascending; of one slot its owner, if it has one."""
            known = recent.get(peid)
            if known is not None:
                return known
            if len(recent) >= MOST_RECENT:
                recent.clear()
            region = directory[peid % RESIDUES]
            peids = all_peids[region]
            at = bisect_left(peids, peid)
            found: Slots = ()
            if at < len(peids) and peids[at] == peid:
                after = at + 1
                if after == len(peids) or peids[after] != peid:
                    slot = all_slots[region][at]
                    found = slot_owners[slot] if slot < len(slot_owners) else (slot,)
                else:
                    found = tuple(all_slots[region][at : bisect_right(peids, peid, after)])
            if len(found) <= MOST_SLOTS_REMEMBERED:
                recent[peid] = found
            return found

        return look_up

    def _regions_of(self, residues: Int64s) -> list[int]:
        return cast("list[int]", np.frombuffer(self._directory, np.uint32)[residues].tolist())

    def _cut(self, region: int) -> bool:
        """Move the upper half of a region's residues to a new region; a single one stays."""
        low, high = self._starts[region], self._ends[region]
        if high - low == 1:
            return False
        middle = (low + high) // 2
        peids: Int64s = np.frombuffer(self._peids[region], np.int64)
        slots: SlotArray = np.frombuffer(self._slots[region], np.uint32)
        upper = peids % RESIDUES >= middle
        new = len(self._peids)
        self._peids.append(array("q", peids[upper].tobytes()))
        self._slots.append(array("I", slots[upper].tobytes()))
        self._peids[region] = array("q", peids[~upper].tobytes())
        self._slots[region] = array("I", slots[~upper].tobytes())
        self._ends[region] = middle
        self._starts.append(middle)
        self._ends.append(high)
        self._directory[middle:high] = array("I", [new]) * (high - middle)
        return True

    def size_of(self, slot: int) -> int:
        """Return the number of pairs of a slot."""
        return self._sizes.of_slot(slot)

    def remove(self, slot: int) -> None:
        """Mark a slot as dead."""
        self.dead.add(slot)
        self.dead_pairs += self._sizes.take(slot)

    @property
    def is_tight(self) -> bool:
        """Whether some regions have no room to grow, as after loading."""
        return self._tight > 0

    def loosen(self, budget: int) -> bool:
        """Give some regions that room; return whether others still have none."""
        stop = self._tight
        self._tight = max(0, stop - budget)
        for region in range(self._tight, stop):
            # An array that is filled takes a sixteenth more than it holds.
            self._peids[region] = array("q", self._peids[region].tobytes())
            self._slots[region] = array("I", self._slots[region].tobytes())
        return self._tight > 0

    def shed(self, budget: int) -> bool:
        """Free some regions of a table that is no longer used; return whether some are left."""
        del self._peids[-budget:], self._slots[-budget:]
        return bool(self._slots)

    @property
    def wants_pass(self) -> bool:
        """Whether a pass goes on, or should begin."""
        return (
            bool(self._dying)
            or self.dead_pairs > max(LEAST_DEAD, self.pairs // DEAD_FRACTION)
            or len(self.dead) > LEAST_DEAD
        )

    def step(self, budget: int) -> frozenset[int]:
        """Clean up to ``budget`` regions; when all are done, return the slots that are gone."""
        if not self._dying:
            # Slots removed from now on wait for the next pass.
            self._dying = frozenset(self.dead)
            self._alive = np.ones(max(self._dying, default=0) + 1, np.bool_)
            self._alive[list(self._dying)] = False
        stop = min(self._cleaned + budget, len(self._slots))
        for region in range(self._cleaned, stop):
            self._clean(region)
        self._cleaned = stop
        if stop < len(self._slots):
            return frozenset()
        gone, self._dying, self._cleaned = self._dying, frozenset(), 0
        self.dead -= gone
        # Remembered answers may name them, and they may be used again from now on.
        self._recent.clear()
        return gone

    def _clean(self, region: int) -> None:
        slots: SlotArray = np.frombuffer(self._slots[region], np.uint32)
        # Slots beyond the mask are younger than the pass.
        alive = self._alive.take(slots, mode="clip") | (slots >= len(self._alive))
        gone = len(slots) - int(np.count_nonzero(alive))
        if gone:
            peids: Int64s = np.frombuffer(self._peids[region], np.int64)
            self._peids[region] = array("q", peids[alive].tobytes())
            self._slots[region] = array("I", slots[alive].tobytes())
            self.pairs -= gone
            self.dead_pairs -= gone
