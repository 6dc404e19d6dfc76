"""Takes the input of connections, packet after packet, and holds it back while one must wait."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from broker.codec.fields import read_header
from broker.codec.publish import QOS_0
from broker.codec.reason_codes import ProtocolError, ReasonCode, UserPropertyLimitError
from broker.core.core_state import CoreState
from broker.core.counters import Refusal
from broker.core.publish.fast_publish import FastPublisher, Read
from broker.core.sessions.connect import ConnectHandler
from broker.core.sessions.connection import Connection, State
from broker.core.sessions.dispatch import Dispatch
from broker.core.sessions.session_lifecycle import SessionLifecycle

log = logging.getLogger(__name__)

_CONNECT: Final = 0x10
_PUBACK: Final = 0x40
# Units of work (broker/core/counters.py) of one read before other clients get their turn: 10 to
# 20 milliseconds.
WORK_AT_ONCE: Final = 40_000
# Members of an Enum are looked up through its class each time; this runs for every read.
_CLOSED: Final = State.CLOSED
_CONNECTED: Final = State.CONNECTED


class Intake:
    """Gives packets to the fast path, and those that it leaves to their handlers."""

    __slots__ = (
        "_clock", "_connect_handler", "_counters", "_dispatch", "_fast", "_lifecycle", "_state",
    )  # fmt: skip

    def __init__(
        self,
        state: CoreState,
        lifecycle: SessionLifecycle,
        fast: FastPublisher,
        connect_handler: ConnectHandler,
        dispatch: Dispatch,
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._fast = fast
        self._connect_handler = connect_handler
        self._dispatch = dispatch
        self._clock = state.clock
        self._counters = state.counters

    def receive_all(self, reads: Iterator[Read]) -> None:
        """Take bytes of any connections, in the order in which they came in.

        ``reads`` is an iterator, so that what was not taken is still in it if this should raise.
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
        """Take a read that is not plain from end to end."""
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
            self._take_packets(connection, data, position)
            if connection.is_blocked:
                self._state.outbox.blocked.append(connection)
        self._note_input(connection)

    def resume(self, connection: Connection) -> None:
        """Take the input that was held back, when what the connection waited for is there."""
        if connection.is_closed or not connection.is_blocked:
            return
        self._resume(connection)
        self._note_input(connection)

    def _note_input(self, connection: Connection) -> None:
        """Count what the connection holds; close the one that holds most when it is too much."""
        if connection.state is _CLOSED:
            return
        heaviest = self._state.input_budget.note(connection, connection.input_bytes)
        while heaviest is not None:
            self._counters.refusals[Refusal.INPUT_BYTES] += 1
            text = "no room for input of this client that is not processed yet"
            self._lifecycle.close(heaviest, ReasonCode.QUOTA_EXCEEDED, text)
            if heaviest is connection:
                return
            heaviest = self._state.input_budget.note(connection, connection.input_bytes)

    def _resume(self, connection: Connection) -> None:
        connection.is_blocked = False
        self._counters.work_limit = self._counters.work + WORK_AT_ONCE
        held, connection.held = connection.held, []
        if held:
            self._take_packets(connection, held[0])
        # Answers serve the input that asked for them. Later input asks again: slots may belong to
        # another generation by then, or a subscription may have been confirmed in between.
        connection.found, connection.failed = {}, frozenset()
        if connection.is_blocked:
            connection.held += held[1:]
            return
        later = connection.inbox.join(b"".join(held[1:]))
        if later and not connection.is_closed:
            self._take_packets(connection, later)
        if not connection.is_blocked and not connection.is_closed:
            self._state.outbox.unblocked.append(connection)

    def _take_packets(self, connection: Connection, data: bytes, position: int = 0) -> None:
        try:
            position = self._packets(connection, data, position)
        except ProtocolError as error:
            self._fail(connection, error)
            return
        if connection.is_blocked and position < len(data):
            connection.held.insert(0, data[position:])

    def _packets(self, connection: Connection, data: bytes, position: int) -> int:
        """Take every complete packet that need not wait; return the position after the last."""
        size = len(data)
        while position < size and not connection.is_blocked:
            if connection.state is _CONNECTED:
                position = self._run(connection, data, position)
                if position == size:
                    break
            elif connection.state is State.NEW and data[position] != _CONNECT:
                # A client that begins otherwise does not speak MQTT: no answer, nothing is kept.
                self._state.counters.refused_connects += 1
                self._lifecycle.close(connection, None)
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
            if not self._take_packet(connection, data, position, body, end):
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
        """Take packets of the most frequent kinds, many in a row."""
        session = connection.session
        if session is not None:
            if data[position] == QOS_0 and not connection.failed:
                read = iter(((connection, data),))
                stop = self._fast.run(read, position, connection.found)
                return len(data) if stop is None else stop[2]
            if data[position] == _PUBACK:
                return self._dispatch.acknowledgements.pubacks(session, data, position)
        return position

    def _take_packet(
        self, connection: Connection, data: bytes, position: int, body: int, end: int
    ) -> bool:
        """Take one packet; return False if it must wait."""
        session = connection.session
        if connection.state is _CONNECTED and session is not None:
            return self._dispatch.packet(connection, session, data, position, body, end)
        self._state.counters.packets_received += 1
        self._connect_handler.handle(connection, data, body, end)
        return True

    def _fail(self, connection: Connection, error: ProtocolError) -> None:
        """End a connection whose client broke the protocol."""
        self._state.counters.protocol_errors += 1
        if isinstance(error, UserPropertyLimitError):
            self._state.counters.refusals[Refusal.USER_PROPERTIES] += 1
        if connection.state is State.CONNECTING:
            self._connect_handler.refuse(connection, error)
        elif connection.state is State.NEW:
            self._state.counters.refused_connects += 1
            log.info("client refused: %s", error, extra=connection.log_fields)
            self._lifecycle.close(connection, None)
        else:
            self._lifecycle.close(connection, error.reason, str(error))
