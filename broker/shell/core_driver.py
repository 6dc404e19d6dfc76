"""Drives the core: passes client bytes to it, and its output, requests and records to the shell.

The core's output is written once per turn of the event loop, after all readable sockets have been
read. So a receiver gets one write, however many senders and messages there were.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from operator import length_hint
from typing import TYPE_CHECKING, Final

from broker.access.addresses import quota_host
from broker.codec.reason_codes import ReasonCode
from broker.core.message import LARGE_PAYLOAD, shared_parts
from broker.core.publish.fast_publish import Read
from broker.ports import JournalStore
from broker.shell.limits import ConnectionQuota, ShellLimits
from broker.shell.network.output_limits import OutputBudget, OutputWatch, UnreadAnswers
from broker.shell.request_answers import RequestAnswers, Services

if TYPE_CHECKING:
    from broker.core.broker_core import Core
    from broker.core.sessions.connection import Connection
    from broker.shell.network.links import TcpLink, WebSocketLink

log = logging.getLogger(__name__)

# Seconds that clients have to read the DISCONNECT when the broker stops.
CLOSE_SECONDS: Final = 2.0
# With more output than this, bytes are written before the turn ends.
MUCH_OUTPUT: Final = 1_048_576
# A larger read is a stream and processed at once, so that its sender can be paused at once.
MANY_BYTES: Final = 4_096


class CoreDriver:
    """All calls of the core go through this class, on the event loop."""

    def __init__(
        self,
        core: Core,
        services: Services,
        store: JournalStore,
        limits: ShellLimits,
        clock: Callable[[], float],
    ) -> None:
        self.core = core
        self.limits = limits
        self.quota = ConnectionQuota(limits)
        # Bytes received in this turn of the event loop.
        self._reads: list[Read] = []
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self.connections: set[Connection] = set()
        self.output = OutputBudget(limits.output_bytes, limits.write_buffer_bytes)
        self.unread = UnreadAnswers(limits.write_buffer_bytes)
        self._watch = OutputWatch(core, self.connections, self.output, self.unread, self.soon)
        self._requests = RequestAnswers(services, self.soon)
        self._store = store
        self._saving: asyncio.Task[None] | None = None
        self._is_scheduled = False
        # Bytes of PUBLISH packets that were written to clients.
        self._sent = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline = math.inf
        self._all_gone = asyncio.Event()

    def opened(self, link: TcpLink | WebSocketLink) -> Connection | None:
        """Return a connection for a new link, or None when there are too many."""
        origin = link.origin
        host = None if origin.address is None else quota_host(origin.address)
        cause = self.quota.add(host)
        if cause is not None:
            log.warning("connection refused: %s", cause, extra={"from": str(origin)})
            return None
        connection = self.core.open(link, str(origin), host)
        self.connections.add(connection)
        self._all_gone.clear()
        self.soon()
        return connection

    def collect(self, connection: Connection, data: bytes) -> None:
        """Receive bytes: processed at the end of this turn, or now if they are many."""
        if len(data) > MANY_BYTES:
            self.received(connection, data)
            return
        if not self._reads:
            self.soon()
        self._reads.append((connection, data))

    def received(self, connection: Connection, data: bytes) -> None:
        """Receive bytes of a client and process them now."""
        self._reads.append((connection, data))
        self._take_in()
        if self.core.counters.publish_bytes_sent - self._sent > MUCH_OUTPUT:
            # Before the next read, so that clients that do not read are detected in time.
            self._write_out()
        self.soon()

    def paused(self, connection: Connection) -> None:
        """Pause writing: the client does not read what was written."""
        self.core.pause_writing(connection)

    def resumed(self, connection: Connection) -> None:
        """Resume writing: the client reads again."""
        self.core.resume_writing(connection)
        self.unread.read_again(connection)
        self.soon()

    def lost(self, connection: Connection) -> None:
        """Handle the end of a connection."""
        # What the client sent before the end is processed.
        self._take_in()
        self.connections.discard(connection)
        self.unread.forget(connection)
        self.quota.remove(connection.host)
        if not self.connections:
            self._all_gone.set()
        self.core.connection_lost(connection)
        self.soon()

    def soon(self) -> None:
        """Schedule the core's output for the end of this turn of the event loop."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._empty)

    async def stop(self) -> None:
        """Send every client a DISCONNECT, store what is left, and close."""
        self._take_in()
        self.core.shut_down()
        self.core.journal.flush()
        self._empty()
        for connection in list(self.connections):
            connection.peer.close()
        if self.connections:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._all_gone.wait()
            except TimeoutError:
                count = len(self.connections)
                log.warning("%d clients did not read in time that the broker stops", count)
        await self._requests.stop()
        while self._saving is not None:
            await self._saving
        if self._timer is not None:
            self._timer.cancel()
        self._watch.stop()

    def _take_in(self) -> None:
        """Process the received bytes."""
        if not self._reads:
            return
        reads, self._reads = self._reads, []
        rest = iter(reads)
        while length_hint(rest):
            try:
                self.core.receive_all(rest)
            except Exception:
                # A bug of the broker: only the client whose bytes caused it is disconnected.
                connection, _ = reads[-length_hint(rest) - 1]
                log.exception("closed: the broker failed on its bytes", extra=connection.log_fields)
                self.core.disconnect(connection, ReasonCode.UNSPECIFIED_ERROR, "the broker failed")
        blocked, self.core.outbox.blocked = self.core.outbox.blocked, []
        for connection in blocked:
            if connection.is_blocked:
                connection.peer.pause_reading()

    def _write_out(self) -> None:
        """Write the output of all connections, each to its socket once."""
        outbox, total = self.core.outbox, 0
        if self.core.counters.bytes_sent >= self.output.next_look:
            self._watch.look()
        writes, outbox.writes = outbox.writes, []
        for connection in writes:
            out = connection.out
            data = b"".join(out)
            if data:
                total += len(data)
                if len(data) > LARGE_PAYLOAD:
                    # Not joined: transports of several receivers share one copy of the payload.
                    for part in shared_parts(out):
                        connection.peer.write(part)
                else:
                    connection.peer.write(data)
                if connection.is_paused:
                    self.unread.note(connection, len(data))
            out.clear()
        self.core.counters.bytes_sent += total
        self._sent = self.core.counters.publish_bytes_sent

    def _empty(self) -> None:
        self._is_scheduled = False
        self._take_in()
        if self._saving is None:
            self.core.commit_acknowledged()
        self._write_out()
        outbox = self.core.outbox
        if outbox.requests:
            requests, outbox.requests = outbox.requests, []
            for request in requests:
                self._requests.take(request)
        if outbox.unblocked:
            unblocked, outbox.unblocked = outbox.unblocked, []
            for connection in unblocked:
                if not connection.is_blocked and not self.unread.holds(connection):
                    connection.peer.resume_reading()
        if outbox.closing:
            closing, outbox.closing = outbox.closing, []
            for connection in closing:
                connection.peer.close()
        if self.core.journal.records and self._saving is None:
            self._saving = asyncio.create_task(self._save_records(), name="journal")
        self._set_timer()

    async def _save_records(self) -> None:
        """Store the core's records; then their acknowledgements may be sent."""
        journal = self.core.journal
        try:
            while journal.records:
                position, records = journal.take()
                await self._store.save(records)
                self.core.committed(position)
                self.soon()
        except Exception:
            log.critical("the journal cannot be stored: nothing is acknowledged", exc_info=True)
            raise
        finally:
            self._saving = None

    def _set_timer(self) -> None:
        """Schedule the next deadline of the core."""
        deadline = self.core.next_deadline()
        if deadline is None or deadline >= self._timer_deadline:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_deadline = deadline
        wait = max(0.0, deadline - self._clock())
        self._timer = self._loop.call_later(wait, self._tick)

    def _tick(self) -> None:
        self._timer_deadline = math.inf
        self._take_in()
        self.core.tick()
        self._empty()
