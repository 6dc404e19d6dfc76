"""Which packet goes where, for a connection that is at work."""

from __future__ import annotations

from typing import Final

from broker.codec.packet_reader import (
    RECEIPT_CODES,
    RELEASE_CODES,
    check_auth,
    read_acknowledgement,
    read_disconnect,
)
from broker.codec.packet_writer import PINGRESP, PUBCOMP, PUBREL, acknowledgement
from broker.codec.reason_codes import ReasonCode, malformed, violation
from broker.core.core_state import CoreState
from broker.core.counters import WORK_OF_A_PACKET
from broker.core.journal import MessageReleased, PacketReleased
from broker.core.publish.delivery_packet import record_done
from broker.core.publish.general_publish import GeneralPublish
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.sessions.connection import Connection
from broker.core.sessions.outgoing_flow import Stage
from broker.core.sessions.session import Session
from broker.core.sessions.session_lifecycle import SessionLife
from broker.core.subscribe.subscribe_handler import SubscribeHandler

_SHORT_PUBACK: Final = b"\x40\x02"


class Acknowledgements:
    """Moves deliveries on, and lets the next ones start."""

    __slots__ = ("_message_delivery", "_most_users", "_state")

    def __init__(self, state: CoreState, message_delivery: MessageDelivery) -> None:
        self._state = state
        self._message_delivery = message_delivery
        self._most_users = state.limits.user_properties

    def pubacks(self, session: Session, data: bytes, position: int) -> int:
        """Short PUBACK packets in a row, as a busy client sends them; where they end."""
        identified, size = session.outgoing.identified, len(data)
        while position + 4 <= size and data[position : position + 2] == _SHORT_PUBACK:
            packet_id = data[position + 2] << 8 | data[position + 3]
            delivery = identified.get(packet_id)
            if delivery is not None:
                if delivery.qos != 1:
                    break
                self._finish(session, packet_id)
            elif not packet_id:
                break
            position += 4
            self._state.counters.packets_received += 1
        return position

    def puback(self, session: Session, data: bytes, body: int, end: int) -> None:
        """The client has a QoS 1 message, or will not have it: either way it is done."""
        packet_id, _ = read_acknowledgement(data, body, end, RECEIPT_CODES, self._most_users)
        _check_qos(session, packet_id, 1, "PUBACK")
        self._finish(session, packet_id)

    def pubrec(self, connection: Connection, session: Session, data: bytes, at: range) -> None:
        """The client has a QoS 2 message: it is never sent again, only released."""
        packet_id, reason = read_acknowledgement(
            data, at.start, at.stop, RECEIPT_CODES, self._most_users
        )
        _check_qos(session, packet_id, 2, "PUBREC")
        if reason >= 0x80:
            self._finish(session, packet_id)
            return
        delivery = session.outgoing.release(packet_id)
        if delivery is None:
            unknown = acknowledgement(PUBREL, packet_id, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)
            self._state.output_gate.send(connection, unknown)
            return
        journal = self._state.journal
        if session.is_recorded and delivery.position:
            journal.write(MessageReleased(session.name, delivery.position))
        packet = acknowledgement(PUBREL, packet_id)
        self._state.output_gate.promise(connection, packet, journal.position)

    def pubrel(self, connection: Connection, session: Session, data: bytes, at: range) -> None:
        """The client will not send this message again: its identifier is free."""
        packet_id, _ = read_acknowledgement(
            data, at.start, at.stop, RELEASE_CODES, self._most_users
        )
        reason = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        if session.incoming.release(packet_id):
            reason = ReasonCode.SUCCESS
            if session.is_recorded:
                self._state.journal.write(PacketReleased(session.name, packet_id))
        packet = acknowledgement(PUBCOMP, packet_id, reason)
        self._state.output_gate.promise(connection, packet, self._state.journal.position)

    def pubcomp(self, session: Session, data: bytes, body: int, end: int) -> None:
        """A QoS 2 message is done."""
        packet_id, _ = read_acknowledgement(data, body, end, RELEASE_CODES, self._most_users)
        _check_qos(session, packet_id, 2, "PUBCOMP")
        delivery = session.outgoing.identified.get(packet_id)
        if delivery is not None and delivery.stage is not Stage.RELEASED:
            raise violation("PUBCOMP for a message that has had no PUBREC")
        self._finish(session, packet_id)

    def _finish(self, session: Session, packet_id: int) -> None:
        delivery = session.outgoing.finish(packet_id)
        if delivery is None:
            return
        record_done(self._state.journal, session, delivery)
        if session.outgoing.queue or (session.connection and session.connection.backlog):
            self._message_delivery.drain(session)


def _check_qos(session: Session, packet_id: int, qos: int, name: str) -> None:
    """Refuse an answer of the wrong kind; one to an unknown message is only late."""
    delivery = session.outgoing.identified.get(packet_id)
    if delivery is not None and delivery.qos != qos:
        raise violation(f"{name} for a message of QoS {delivery.qos}")


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
