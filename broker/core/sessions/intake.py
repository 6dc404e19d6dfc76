"""Input of connections: packets one after the other, held back while one must wait."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from broker.codec.framing import read_header
from broker.codec.reason_codes import ProtocolError, ReasonCode, UserPropertyLimitError
from broker.core.core_state import CoreState
from broker.core.counters import Refusal
from broker.core.publish.fast_fan_out import QOS_0
from broker.core.publish.fast_publish import FastPublisher, Read
from broker.core.sessions.connection import Connection, State
from broker.core.sessions.session_lifecycle import SessionLife

if TYPE_CHECKING:
    from broker.core.sessions.connect import ConnectHandler
    from broker.core.sessions.dispatch import Dispatch

log = logging.getLogger(__name__)

_CONNECT: Final = 0x10
_PUBACK: Final = 0x40
# Units of work (broker/core/counters.py) for one read before other clients get their turn: 10 to 20
# ms.
WORK_AT_ONCE: Final = 40_000
# Members of an Enum are looked up through its class each time; this runs for every read.
_CLOSED: Final = State.CLOSED
_CONNECTED: Final = State.CONNECTED


class Intake:
    """``connecting`` and ``dispatch`` are set once they exist: they call ``resume``."""

    __slots__ = ("_clock", "_counters", "_fast", "_life", "_state", "connecting", "dispatch")

    def __init__(self, state: CoreState, life: SessionLife, fast: FastPublisher) -> None:
        self._state = state
        self._life = life
        self._fast = fast
        self._clock = state.clock
        self._counters = state.counters
        self.connecting: ConnectHandler
        self.dispatch: Dispatch

    def receive(self, connection: Connection, data: bytes) -> None:
        """Bytes came in."""
        self.receive_all(iter(((connection, data),)))

    def receive_all(self, reads: Iterator[Read]) -> None:
        """Bytes of any connections, in the order in which they came in.

        An iterator, so that what was not worked off is still in it if this should raise.
        """
        counters = self._counters
        while True:
            counters.work_limit = counters.work + WORK_AT_ONCE
            before = counters.publish_bytes_received
            stop = self._fast.run(reads)
            counters.bytes_received += counters.publish_bytes_received - before
            if stop is None:
                return
            self._take(*stop)

    def _take(self, connection: Connection, data: bytes, position: int) -> None:
        """Work off a read that is not plain from end to end."""
        if connection.state is _CLOSED:
            return
        connection.last_seen = self._clock()
        self._counters.bytes_received += len(data) - position
        if connection.is_blocked:
            connection.held.append(data)
            self._note_input(connection)
            return
        if connection.inbox.pending:
            data = connection.inbox.join(data)
        if position < len(data):
            self._counters.work_limit = self._counters.work + WORK_AT_ONCE
            self._work_off(connection, data, position)
            if connection.is_blocked:
                self._state.outbox.blocked.append(connection)
        self._note_input(connection)

    def resume(self, connection: Connection) -> None:
        """What the connection waited for is there: work off what was held back."""
        if connection.is_closed or not connection.is_blocked:
            return
        self._resume(connection)
        self._note_input(connection)

    def _note_input(self, connection: Connection) -> None:
        """Count what the connection holds; who holds the most goes when all hold too much."""
        if connection.state is _CLOSED:
            return
        heaviest = self._state.input_budget.note(connection, connection.input_bytes)
        while heaviest is not None:
            self._counters.refusals[Refusal.INPUT_BYTES] += 1
            text = "no room for what this client sent and the broker has not worked off"
            self._life.close(heaviest, ReasonCode.QUOTA_EXCEEDED, text)
            if heaviest is connection:
                return
            heaviest = self._state.input_budget.note(connection, connection.input_bytes)

    def _resume(self, connection: Connection) -> None:
        connection.is_blocked = False
        self._counters.work_limit = self._counters.work + WORK_AT_ONCE
        held, connection.held = connection.held, []
        if held:
            self._work_off(connection, held[0])
        if connection.is_blocked:
            connection.held += held[1:]
            # It waits for something else now. Whatever was looked up may name slots of a
            # generation, or of subscriptions, that are no more when it goes on: ask again.
            connection.found, connection.failed = {}, frozenset()
            return
        # What came in after the question was asked needs an answer of its own: the first one
        # may know nothing of a subscription that was confirmed in between.
        connection.found, connection.failed = {}, frozenset()
        later = connection.inbox.join(b"".join(held[1:]))
        if later and not connection.is_closed:
            self._work_off(connection, later)
        if not connection.is_blocked and not connection.is_closed:
            self._state.outbox.unblocked.append(connection)

    def _work_off(self, connection: Connection, data: bytes, position: int = 0) -> None:
        try:
            position = self._packets(connection, data, position)
        except ProtocolError as error:
            self._fail(connection, error)
            return
        if connection.is_blocked and position < len(data):
            connection.held.insert(0, data[position:])

    def _packets(self, connection: Connection, data: bytes, position: int) -> int:
        """Work off every complete packet that need not wait; the position after the last."""
        size = len(data)
        while position < size and not connection.is_blocked:
            if connection.state is _CONNECTED:
                position = self._run(connection, data, position)
                if position == size:
                    break
            elif connection.state is State.NEW and data[position] != _CONNECT:
                # Whoever begins otherwise does not speak MQTT: no answer, nothing is kept.
                self._state.counters.refused_connects += 1
                self._life.close(connection, None)
                return size
            header = read_header(data, position, connection.packet_limit)
            if header is None:
                connection.inbox.keep(data[position:], size - position + 1)
                return size
            body, end = header
            if end > size:
                connection.inbox.keep(data[position:], end - position)
                return size
            if self._counters.work >= self._counters.work_limit:
                self._give_way(connection)
                continue
            if not self._packet(connection, data, position, body, end):
                return position
            position = end
            if connection.is_closed:
                return size
        return position

    def _give_way(self, connection: Connection) -> None:
        """Leave the rest of a read for the next turn, so that other clients are served first."""
        connection.is_blocked = True
        self._counters.turns_given_up += 1
        self._state.timers.at(self._clock(), lambda: self.resume(connection))

    def _run(self, connection: Connection, data: bytes, position: int) -> int:
        """Take packets of the most frequent kinds, many in a row, the short way."""
        session = connection.session
        if session is not None:
            if data[position] == QOS_0 and not connection.failed:
                read = iter(((connection, data),))
                stop = self._fast.run(read, position, connection.found)
                return len(data) if stop is None else stop[2]
            if data[position] == _PUBACK:
                return self.dispatch.acknowledging.pubacks(session, data, position)
        return position

    def _packet(
        self, connection: Connection, data: bytes, position: int, body: int, end: int
    ) -> bool:
        """Work off one packet; False: it must wait."""
        session = connection.session
        if connection.state is _CONNECTED and session is not None:
            return self.dispatch.packet(connection, session, data, position, body, end)
        self._state.counters.packets_received += 1
        self.connecting.handle(connection, data, body, end)
        return True

    def _fail(self, connection: Connection, error: ProtocolError) -> None:
        """End a connection for what its client sent."""
        self._state.counters.protocol_errors += 1
        if isinstance(error, UserPropertyLimitError):
            self._state.counters.refusals[Refusal.USER_PROPERTIES] += 1
        if connection.state is State.CONNECTING:
            self.connecting.refuse(connection, error)
        elif connection.state is State.NEW:
            self._state.counters.refused_connects += 1
            log.info("client refused: %s", error, extra=connection.log_fields)
            self._life.close(connection, None)
        else:
            self._life.close(connection, error.reason, str(error))
