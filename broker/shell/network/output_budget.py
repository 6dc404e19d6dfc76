"""Output that clients have not read: bounded over all connections.

The transports know what they hold, so nothing is counted when a message is sent. All connections
are looked at once enough was written that the limit could be near, and from then on several times
a second until everything was read.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from broker.core.limits import holder_of

if TYPE_CHECKING:
    from broker.core.sessions.connection import Connection

# Seconds between two looks while something waits to be read.
LOOK_SECONDS: Final = 0.25
# While room is short a client that leaves more than this unread counts as one that does not read.
LEAST_MARK: Final = 4_096


class OutputBudget:
    """What all connections hold, and how much one may hold before it counts as not reading.

    From half of the limit on, a connection may hold only its part of the other half: clients that
    do not read get no further message. Beyond the limit, a connection of the user or address that
    holds the most has to go, unless clients read at a pace that brings the total below it soon.
    """

    __slots__ = ("_judged", "_judged_at", "_limit", "_usual_mark", "bytes", "mark", "next_look")

    def __init__(self, limit: int, usual_mark: int) -> None:
        self._limit = limit
        self._usual_mark = usual_mark
        # What was held at the last look.
        self.bytes = 0
        # What one connection may hold before it counts as one that does not read.
        self.mark = usual_mark
        # Once so many bytes were written in all, half of the limit could be reached.
        self.next_look = limit // 2
        # What was held when it was last decided who has to go, and when that was.
        self._judged = 0
        self._judged_at = 0.0

    def look(
        self, connections: Collection[Connection], written: int, now: float
    ) -> list[Connection]:
        """Count what all connections hold; return those that must be closed.

        ``written`` are the bytes written in all, to closed connections too.
        """
        held = {one: size for one in connections if (size := one.peer.unread_bytes)}
        self.bytes = sum(held.values())
        self._set_mark(connections)
        victims: list[Connection] = []
        if now >= self._judged_at + LOOK_SECONDS / 2:
            # A message for many clients may be more than the limit before they can read it.
            is_stuck = self.bytes > self._judged - self._limit // 64
            if self.bytes > self._limit and self._judged > self._limit and is_stuck:
                victims = self._heaviest(held)
                self.bytes -= sum(held[one] for one in victims)
            self._judged, self._judged_at = self.bytes, now
        room = max(self._limit // 2 - self.bytes, self._limit // 16)
        self.next_look = written + room
        return victims

    def _set_mark(self, connections: Collection[Connection]) -> None:
        mark = self._usual_mark
        if self.bytes > self._limit // 2:
            part = self._limit // 2 // len(connections)
            mark = min(mark, max(part, LEAST_MARK))
        elif self.bytes > self._limit // 4:
            # Neither short nor plenty: as it is.
            mark = self.mark
        if mark != self.mark:
            self.mark = mark
            for connection in connections:
                connection.peer.set_write_mark(mark)

    def _heaviest(self, held: dict[Connection, int]) -> list[Connection]:
        """Return the connections to close until the rest is within the limit."""
        of_holder: defaultdict[object, list[Connection]] = defaultdict(list)
        for connection in sorted(held, key=lambda one: held[one]):
            of_holder[holder_of(connection)].append(connection)
        totals = [
            (-sum(held[one] for one in own), number, own)
            for number, own in enumerate(of_holder.values())
        ]
        heapq.heapify(totals)
        too_much = self.bytes - self._limit
        victims: list[Connection] = []
        while too_much > 0:
            total, number, own = heapq.heappop(totals)
            victims.append(own.pop())
            size = held[victims[-1]]
            too_much -= size
            if own:
                heapq.heappush(totals, (total + size, number, own))
        return victims
