"""Times the filter for a few messages, whatever the mode of memberships and the QoS."""

from __future__ import annotations

from time import perf_counter
from typing import Final

from broker.core.core_state import CoreState
from broker.filter.memberships import SlotOwner

# At most a hundred samples a second, and one for a message that comes alone.
INTERVAL_SECONDS: Final = 0.01


class FilterSampler:
    """Runs the filter once more for one message; from ``due`` on the next one may be taken."""

    __slots__ = ("_state", "due")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self.due = 0.0

    def look_at(self, topic: bytes, peid: int) -> None:
        """Measure with this message if the next sample is due."""
        if (now := self._state.clock()) >= self.due:
            self.take(topic, peid, now)

    def take(self, topic: bytes, peid: int, now: float) -> None:
        """Measure what leads from a topic and an entity to the subscriptions."""
        state = self._state
        began = perf_counter()
        route = state.routes.by_topic.get(topic)
        slots = state.memberships.look_up_function(peid)
        if route is not None and slots:
            if type(slots) is SlotOwner:
                _ = slots.home in route.spatial
            else:
                _ = [slot for slot in slots if state.slots.slot_owners[slot].home in route.spatial]
        state.counters.filter_times.append(perf_counter() - began)
        self.due = now + INTERVAL_SECONDS
