"""Large neighborhoods on their way into the filter: a piece at a time, others in between.

Members are entered under a slot that nobody has yet, so a half-entered neighborhood delivers
nothing. Once all are in, the slot is given to its subscription, and only then SUBACK goes out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from broker.core_state import CoreState
from broker.effects import Resolved

# A member costs 2 to 3 µs. So many are entered without letting others come between ...
MOST_AT_ONCE: Final = 2_000
# ... and so many at each turn, of all large neighborhoods together.
PIECE: Final = 1_000


@dataclass(slots=True, eq=False)
class _Entry:
    """One SUBSCRIBE: the same members for each of its filters, under a slot for each."""

    members: Resolved
    is_stale: Callable[[], bool]
    ended: Callable[[list[int] | None], None]
    again: Callable[[], None]
    # The last of these is being filled.
    slots: list[int] = field(default_factory=list)


class Entering:
    """One after the other, in the order in which they were resolved."""

    __slots__ = ("_queue", "_state")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._queue: deque[_Entry] = deque()

    def begin(
        self,
        members: Resolved,
        is_stale: Callable[[], bool],
        ended: Callable[[list[int] | None], None],
        again: Callable[[], None],
    ) -> None:
        """Enter the members once for each subId.

        ``ended`` gets the slots that hold all of them, or None when it was given up because
        the client ``is_stale``. ``again`` is called instead when another world came into force:
        these are not the members any more.
        """
        self._queue.append(_Entry(members, is_stale, ended, again))
        if len(self._queue) == 1:
            self._soon()

    def _soon(self) -> None:
        self._state.timers.at(self._state.clock(), self._step)

    def _step(self) -> None:
        entry = self._queue[0]
        if entry.is_stale():
            self._give_up(entry)
            entry.ended(None)
        elif entry.slots and self._state.memberships.is_outdated(entry.slots[-1]):
            self._give_up(entry)
            entry.again()
        elif self._is_complete(entry):
            self._queue.popleft()
            entry.ended(entry.slots)
        if self._queue:
            self._soon()

    def _is_complete(self, entry: _Entry) -> bool:
        """Enter one more piece; whether nothing is left."""
        memberships = self._state.memberships
        if not entry.slots:
            self._begin_slot(entry)
        if not memberships.add_some(entry.slots[-1], PIECE):
            return False
        if len(entry.slots) == len(entry.members.sub_ids):
            return True
        self._begin_slot(entry)
        return False

    def _begin_slot(self, entry: _Entry) -> None:
        slot = self._state.slots.reserve()
        entry.slots.append(slot)
        self._state.memberships.begin(slot, entry.members.peids, entry.members.coming)

    def _give_up(self, entry: _Entry) -> None:
        for slot in entry.slots:
            self._state.slots.give_up(slot)
        self._queue.popleft()
