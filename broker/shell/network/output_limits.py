"""Limits on output that clients have not read, for each connection and for all together.

The transports count their unread bytes, so nothing is counted when a message is sent. All
connections are checked when enough was written that the limit could be near, and then several
times a second until everything was read. A client that sends without reading its answers is not
read from.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Refusal
from broker.core.limits import holder_of

if TYPE_CHECKING:
    from broker.core.broker_core import Core
    from broker.core.sessions.connection import Connection

log = logging.getLogger(__name__)

# Seconds between two checks while output is unread.
LOOK_SECONDS: Final = 0.25
# When memory is short, a client with more unread bytes than this counts as not reading.
LEAST_MARK: Final = 4_096


class OutputBudget:
    """The unread bytes of all connections, and the limit from which one counts as not reading.

    From half of the limit on, a connection may have only its share of the other half: clients that
    do not read get no further message. Beyond the limit, a connection of the user or address with
    the most unread bytes is closed, unless clients read fast enough to go below the limit soon.
    """

    __slots__ = ("_judged", "_judged_at", "_limit", "_usual_mark", "bytes", "mark", "next_look")

    def __init__(self, limit: int, usual_mark: int) -> None:
        self._limit = limit
        self._usual_mark = usual_mark
        # Unread bytes at the last check.
        self.bytes = 0
        # Unread bytes from which a connection counts as not reading.
        self.mark = usual_mark
        # Total of written bytes from which half of the limit could be reached.
        self.next_look = limit // 2
        # Unread bytes at the last decision on closing connections, and its time.
        self._judged = 0
        self._judged_at = 0.0

    def look(
        self, connections: Collection[Connection], written: int, now: float
    ) -> list[Connection]:
        """Count the unread bytes of all connections; return the connections that must be closed.

        ``written`` are all bytes ever written, including those to closed connections.
        """
        held = {one: size for one in connections if (size := one.peer.unread_bytes)}
        self.bytes = sum(held.values())
        self._set_mark(connections)
        victims: list[Connection] = []
        if now >= self._judged_at + LOOK_SECONDS / 2:
            # A message for many clients may exceed the limit before they can read it.
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
            # Neither short nor plenty: no change.
            mark = self.mark
        if mark != self.mark:
            self.mark = mark
            for connection in connections:
                connection.peer.set_write_mark(mark)

    def _heaviest(self, held: dict[Connection, int]) -> list[Connection]:
        """Return the connections to close so that the rest is within the limit."""
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


class UnreadAnswers:
    """Bytes that were written to clients since they stopped reading.

    Messages for such a client are dropped or queued. Only answers to its own packets are still
    written, and they need a limit too.
    """

    __slots__ = ("_held", "_sizes", "limit", "stops")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # How many times reading from a client was paused.
        self.stops = 0
        self._sizes: dict[Connection, int] = {}
        self._held: set[Connection] = set()

    def __len__(self) -> int:
        """Return the number of clients from which reading is paused."""
        return len(self._held)

    def note(self, connection: Connection, size: int) -> None:
        """Count bytes written to a client that does not read; pause reading from it."""
        total = self._sizes[connection] = self._sizes.get(connection, 0) + size
        if total > self.limit and connection not in self._held:
            self._held.add(connection)
            self.stops += 1
            connection.peer.pause_reading()
            log.info(
                "nothing more is read from a client that does not read its answers",
                extra=connection.log_fields,
            )

    def holds(self, connection: Connection) -> bool:
        """Return whether reading from the client is paused."""
        return connection in self._held

    def read_again(self, connection: Connection) -> None:
        """Resume reading from a client that reads, unless it waits for an answer."""
        is_held = self.holds(connection)
        self.forget(connection)
        if is_held and not connection.is_blocked:
            connection.peer.resume_reading()

    def forget(self, connection: Connection) -> None:
        """Remove a connection that is closed or reads again."""
        self._sizes.pop(connection, None)
        self._held.discard(connection)


class OutputWatch:
    """Checks all connections when it is due, and again while output is unread."""

    def __init__(
        self,
        core: Core,
        connections: Collection[Connection],
        budget: OutputBudget,
        answers: UnreadAnswers,
        soon: Callable[[], None],
    ) -> None:
        self._core = core
        self._connections = connections
        self._budget = budget
        self._answers = answers
        self._soon = soon
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Count unread bytes; close the connections with the most when there are too many."""
        counters = self._core.counters
        now = self._loop.time()
        for connection in self._budget.look(self._connections, counters.bytes_sent, now):
            counters.refusals[Refusal.OUTPUT_BYTES] += 1
            # It would not read a DISCONNECT either. Closed at once, to free the memory.
            connection.peer.abort()
            text = "too much was written that clients have not read"
            self._core.disconnect(connection, ReasonCode.QUOTA_EXCEEDED, text)
        self._answers.limit = self._budget.mark
        if self._budget.bytes and self._timer is None:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look_again)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_again(self) -> None:
        self._timer = None
        self.look()
        self._soon()
