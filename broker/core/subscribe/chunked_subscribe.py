"""Large neighborhoods on their way into the filter: a piece at a time, others in between.

Members are entered under a slot that nobody has yet, so a half-entered neighborhood delivers
nothing. Once all are in, the slot is given to its subscription, and only then SUBACK goes out.
Neighborhoods of several clients enter in turns: by user name or address, then by client.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from broker.core.core_state import CoreState
from broker.core.requests import Resolved
from broker.core.sessions.session import Session

# A member costs 2 to 3 µs. So many are entered without letting others come between ...
MOST_AT_ONCE: Final = 2_000
# ... and so many at each turn, of all large neighborhoods together.
PIECE: Final = 1_000


@dataclass(slots=True, eq=False)
class _Entry:
    """One SUBSCRIBE: the same members for each of its filters, under a slot for each."""

    session: Session
    members: Resolved
    is_stale: Callable[[], bool]
    ended: Callable[[list[int] | None], None]
    again: Callable[[], None]
    # The last of these is being filled.
    slots: list[int] = field(default_factory=list)

    @property
    def pairs(self) -> int:
        """Return the number of pairs that it brings into the filter."""
        return len(self.members.peids) * len(self.members.sub_ids)


class ChunkedSubscribe:
    """A piece of one, then a piece of the next."""

    __slots__ = ("_queues", "_state")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        # By owner; the one served longest ago comes first, and so in each queue.
        self._queues: OrderedDict[str, deque[_Entry]] = OrderedDict()

    def begin(
        self,
        session: Session,
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
        entry = _Entry(session, members, is_stale, ended, again)
        # Its user holds them from now on, so that others who come meanwhile count with it.
        session.pair_account.add(entry.pairs)
        if not self._queues:
            self._soon()
        self._queues.setdefault(session.owner, deque()).append(entry)

    def _soon(self) -> None:
        self._state.timers.at(self._state.clock(), self._step)

    def _step(self) -> None:
        owner, queue = next(iter(self._queues.items()))
        entry = queue.popleft()
        is_stale = entry.is_stale()
        is_outdated = bool(entry.slots) and self._state.memberships.is_outdated(entry.slots[-1])
        is_over = is_stale or is_outdated or self._is_complete(entry)
        if not is_over:
            queue.append(entry)
        self._queues.move_to_end(owner)
        if not queue:
            del self._queues[owner]
        if self._queues:
            self._soon()
        if is_over:
            self._end(entry, is_stale=is_stale, is_outdated=is_outdated)

    def _end(self, entry: _Entry, *, is_stale: bool, is_outdated: bool) -> None:
        entry.session.pair_account.add(-entry.pairs)
        if not is_stale and not is_outdated:
            entry.ended(entry.slots)
            return
        for slot in entry.slots:
            self._state.slots.give_up(slot)
        if is_stale:
            entry.ended(None)
        else:
            entry.again()

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
