"""Takes the input of connections: gives each packet to its handler, holds back what must wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.codec.fields import read_header
from broker.codec.packet_reader import unexpected_packet
from broker.codec.packet_writer import PINGRESP
from broker.codec.publish import QOS_0
from broker.codec.reason_codes import ProtocolError, malformed, violation
from broker.core.core_state import CoreState
from broker.core.counters import WORK_OF_A_PACKET
from broker.core.publish.fast_paths import FastPaths
from broker.core.publish.fast_publish import Read
from broker.core.publish.general_publish import GeneralPublish
from broker.core.sessions.acknowledgements import Acknowledgements
from broker.core.sessions.connect import ConnectHandler
from broker.core.sessions.connection import Connection, State
from broker.core.sessions.connection_faults import InputFaults
from broker.core.sessions.session_lifecycle import SessionLifecycle
from broker.core.subscribe.subscribe_queue import SubscribeQueue
from broker.core.trace import FastPath, TracingFastPath

_CONNECT: Final = 0x10
_PUBLISH: Final = 0x30
# Units of work (broker/core/counters.py) of one read before other clients get their turn: 10 to
# 20 milliseconds.
WORK_AT_ONCE: Final = 40_000
# Members of an Enum are looked up through its class each time; this runs for every read.
_CLOSED: Final = State.CLOSED
_CONNECTED: Final = State.CONNECTED


class Intake:
    """Gives packets to the fast path, and those that it leaves to their handlers."""

    __slots__ = (
        "_acknowledgements", "_clock", "_connect_handler", "_counters", "_fast", "_fast_3",
        "_faults", "_general_publish", "_lifecycle", "_qos_1", "_state", "_subscribe_queue",
        "_untraced",
    )  # fmt: skip

    def __init__(
        self,
        state: CoreState,
        lifecycle: SessionLifecycle,
        fast: FastPaths,
        connect_handler: ConnectHandler,
        general_publish: GeneralPublish,
        acknowledgements: Acknowledgements,
        subscribe_queue: SubscribeQueue,
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._fast: FastPath = fast.mqtt_5
        self._untraced, self._fast_3, self._qos_1 = fast
        self._faults = InputFaults(state, lifecycle, connect_handler)
        self._connect_handler = connect_handler
        self._general_publish = general_publish
        self._acknowledgements = acknowledgements
        self._subscribe_queue = subscribe_queue
        self._clock = state.clock
        self._counters = state.counters

    def leave_traced(self, *, clients: bool) -> None:
        """Let the fast path leave packets of traced clients, if there are any."""
        self._fast = TracingFastPath(self._untraced) if clients else self._untraced

    def receive_all(self, reads: Iterator[Read]) -> None:
        """Take bytes of any connections, as ``Core.receive_all``."""
        counters = self._counters
        while True:
            counters.work_limit = counters.work + WORK_AT_ONCE
            before = counters.publish_bytes_received + counters.puback_bytes_received
            stop = self._fast.run(reads)
            after = counters.publish_bytes_received + counters.puback_bytes_received
            counters.bytes_received += after - before
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
            self._faults.count_input(connection)
            return
        if connection.inbox.pending:
            data = connection.inbox.join(data)
        if position < len(data):
            self._counters.work_limit = self._counters.work + WORK_AT_ONCE
            self._take_packets(connection, data, position)
            if connection.is_blocked:
                self._state.outbox.blocked.append(connection)
        self._faults.count_input(connection)

    def resume(self, connection: Connection) -> None:
        """Take the input that was held back, when what the connection waited for is there."""
        if connection.is_closed or not connection.is_blocked:
            return
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
        else:
            later = connection.inbox.join(b"".join(held[1:]))
            if later and not connection.is_closed:
                self._take_packets(connection, later)
            if not connection.is_blocked and not connection.is_closed:
                self._state.outbox.unblocked.append(connection)
        self._faults.count_input(connection)

    def _take_packets(self, connection: Connection, data: bytes, position: int = 0) -> None:
        try:
            position = self._packets(connection, data, position)
        except ProtocolError as error:
            self._faults.fail(connection, error)
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
                # The rest is taken in the next turn, so that other clients are served first.
                connection.is_blocked = True
                self._counters.turns_given_up += 1
                self._state.soon(lambda: self.resume(connection))
                continue
            if not self._take_packet(connection, data, position, body, end):
                return position
            position = end
            if connection.is_closed:
                return size
        return position

    def _run(self, connection: Connection, data: bytes, position: int) -> int:
        """Take packets of the most frequent kinds, many in a row."""
        session = connection.session
        if session is not None:
            if data[position] == QOS_0 and not connection.failed:
                if not connection.has_properties:
                    if session.is_traced:
                        return position
                    return self._fast_3.run(connection, session, data, position)
                read = iter(((connection, data),))
                stop = self._fast.run(read, position, connection.found)
                return len(data) if stop is None else stop[2]
            return self._qos_1.run(connection, session, data, position)
        return position

    def _take_packet(  # noqa: C901, PLR0912 - one case for each packet type
        self, connection: Connection, data: bytes, start: int, body: int, end: int
    ) -> bool:
        """Give a packet to its handler; return False if it must wait, and is to be given again."""
        counters, session, first = self._counters, connection.session, data[start]
        most_users = self._state.limits.user_properties
        if connection.state is not _CONNECTED or session is None:
            counters.packets_received += 1
            self._connect_handler.handle(connection, data, body, end)
            return True
        counters.work += WORK_OF_A_PACKET
        if session.is_traced and first & 0xF0 != _PUBLISH:
            self._state.trace.received(session, first, end - start)
        if first & 0xF0 == _PUBLISH:
            if not self._general_publish.handle(connection, session, data, start, body, end):
                return False
            counters.publishes_received += 1
            counters.publish_bytes_received += end - start
        elif first == 0x40:
            self._acknowledgements.puback(connection, session, data, range(body, end))
        elif first == 0x50:
            self._acknowledgements.pubrec(connection, session, data, range(body, end))
        elif first == 0x62:
            self._acknowledgements.pubrel(connection, session, data, range(body, end))
        elif first == 0x70:
            self._acknowledgements.pubcomp(connection, session, data, range(body, end))
        elif first == 0x82:
            self._subscribe_queue.subscribe(connection, session, data, body, end)
        elif first == 0xA2:
            self._subscribe_queue.unsubscribe(connection, session, data, body, end)
        elif first == 0xC0:
            if end > body:
                raise malformed("PINGREQ with a body")
            self._state.output_gate.send(connection, PINGRESP)
        elif first == 0xE0:
            leaving = connection.codec.read_disconnect(data, body, end, most_users)
            self._lifecycle.leave(connection, session, leaving)
        elif first == 0xF0:
            connection.codec.check_auth(data, body, end, most_users)
            raise violation("AUTH without enhanced authentication")
        elif (same := connection.codec.repeated.get(first)) is not None:
            again = bytes((same,)) + data[start + 1 : end]
            return self._take_packet(connection, again, 0, body - start, end - start)
        else:
            raise unexpected_packet(first)
        counters.packets_received += 1
        return True
