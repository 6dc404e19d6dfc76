"""Which packet goes where, for a connection that is at work."""

from __future__ import annotations

from broker.codec.errors import malformed, violation
from broker.codec.packet_reader import check_auth, read_disconnect
from broker.codec.packet_writer import PINGRESP
from broker.core.core_state import CoreState
from broker.core.counters import WORK_OF_A_PACKET
from broker.core.publish.general_publish import GeneralPublish
from broker.core.sessions.acknowledgements import Acknowledgements
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.sessions.session_lifecycle import SessionLife
from broker.core.subscribe.subscribe_handler import SubscribeHandler

# First bytes of packets that only a broker sends, or that come once.
_NOT_FROM_CLIENTS = {0x10: "a second CONNECT", 0x20: "CONNACK", 0x90: "SUBACK",
                     0xB0: "UNSUBACK", 0xD0: "PINGRESP"}  # fmt: skip


class Dispatch:
    """One method, one decision."""

    __slots__ = ("_life", "_publishing", "_state", "_subscribing", "acknowledging")

    def __init__(
        self,
        state: CoreState,
        life: SessionLife,
        publishing: GeneralPublish,
        acknowledging: Acknowledgements,
        subscribing: SubscribeHandler,
    ) -> None:
        self._state = state
        self._life = life
        self._publishing = publishing
        self.acknowledging = acknowledging
        self._subscribing = subscribing

    def packet(  # noqa: C901, PLR0912 - one case for each packet type
        self, connection: Connection, session: Session, data: bytes, start: int, body: int, end: int
    ) -> bool:
        """Work a packet off; False: it must wait, and comes again."""
        first = data[start]
        self._state.counters.work += WORK_OF_A_PACKET
        if first & 0xF0 == 0x30:
            if not self._publishing.handle(connection, session, data, start, body, end):
                return False
            self._state.counters.publishes_received += 1
            self._state.counters.publish_bytes_received += end - start
        elif first == 0x40:
            self.acknowledging.puback(session, data, body, end)
        elif first == 0x50:
            self.acknowledging.pubrec(connection, session, data, range(body, end))
        elif first == 0x62:
            self.acknowledging.pubrel(connection, session, data, range(body, end))
        elif first == 0x70:
            self.acknowledging.pubcomp(session, data, body, end)
        elif first == 0x82:
            self._subscribing.subscribe(connection, session, data, body, end)
        elif first == 0xA2:
            self._subscribing.unsubscribe(connection, session, data, body, end)
        elif first == 0xC0:
            if end > body:
                raise malformed("PINGREQ with a body")
            self._state.output_gate.send(connection, PINGRESP)
        elif first == 0xE0:
            most_users = self._state.limits.user_properties
            self._life.leave(connection, session, read_disconnect(data, body, end, most_users))
        elif first == 0xF0:
            check_auth(data, body, end, self._state.limits.user_properties)
            raise violation("AUTH without enhanced authentication")
        elif first in _NOT_FROM_CLIENTS:
            raise violation(f"{_NOT_FROM_CLIENTS[first]} from a client")
        else:
            raise malformed(f"a packet cannot begin with 0x{first:02x}")
        self._state.counters.packets_received += 1
        return True
