"""Handles each packet of a connected client by its type."""

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
from broker.core.message import Stage
from broker.core.publish.general_publish import GeneralPublish
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.sessions.session_lifecycle import SessionLifecycle
from broker.core.subscribe.subscribe_queue import SubscribeQueue

_SHORT_PUBACK: Final = b"\x40\x02"


class Acknowledgements:
    """Handles the acknowledgements of deliveries, after which the next ones may start."""

    __slots__ = ("_message_delivery", "_most_users", "_state")

    def __init__(self, state: CoreState, message_delivery: MessageDelivery) -> None:
        self._state = state
        self._message_delivery = message_delivery
        self._most_users = state.limits.user_properties

    def pubacks(self, session: Session, data: bytes, position: int) -> int:
        """Take short PUBACK packets in a row, as busy clients send them; return where they end."""
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
        """Take PUBACK: the client has a QoS 1 message, or refuses it; either way it is done."""
        packet_id, _ = read_acknowledgement(data, body, end, RECEIPT_CODES, self._most_users)
        _check_qos(session, packet_id, 1, "PUBACK")
        self._finish(session, packet_id)

    def pubrec(self, connection: Connection, session: Session, data: bytes, at: range) -> None:
        """Take PUBREC: the client has a QoS 2 message, which is never sent again, only released."""
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
        self._state.output_gate.promise(connection, packet)

    def pubrel(self, connection: Connection, session: Session, data: bytes, at: range) -> None:
        """Take PUBREL: the client will not send this message again, so its identifier is free."""
        packet_id, _ = read_acknowledgement(
            data, at.start, at.stop, RELEASE_CODES, self._most_users
        )
        reason = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        if session.incoming.release(packet_id):
            reason = ReasonCode.SUCCESS
            if session.is_recorded:
                self._state.journal.write(PacketReleased(session.name, packet_id))
        packet = acknowledgement(PUBCOMP, packet_id, reason)
        self._state.output_gate.promise(connection, packet)

    def pubcomp(self, session: Session, data: bytes, body: int, end: int) -> None:
        """Take PUBCOMP: a QoS 2 message is done."""
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
        session.record_done(self._state.journal, delivery)
        if session.outgoing.queue or (session.connection and session.connection.backlog):
            self._message_delivery.drain(session)


def _check_qos(session: Session, packet_id: int, qos: int, name: str) -> None:
    """Refuse an acknowledgement of the wrong kind; one of an unknown message is only late."""
    delivery = session.outgoing.identified.get(packet_id)
    if delivery is not None and delivery.qos != qos:
        raise violation(f"{name} for a message of QoS {delivery.qos}")


# First bytes of packets that only a broker sends, or that are sent once.
_NOT_FROM_CLIENTS = {0x10: "a second CONNECT", 0x20: "CONNACK", 0x90: "SUBACK",
                     0xB0: "UNSUBACK", 0xD0: "PINGRESP"}  # fmt: skip


class Dispatch:
    """Chooses the handler of a packet."""

    __slots__ = ("_general_publish", "_lifecycle", "_state", "_subscribe_queue", "acknowledgements")

    def __init__(
        self,
        state: CoreState,
        lifecycle: SessionLifecycle,
        general_publish: GeneralPublish,
        acknowledgements: Acknowledgements,
        subscribe_queue: SubscribeQueue,
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._general_publish = general_publish
        self.acknowledgements = acknowledgements
        self._subscribe_queue = subscribe_queue

    def packet(  # noqa: C901, PLR0912 - one case for each packet type
        self, connection: Connection, session: Session, data: bytes, start: int, body: int, end: int
    ) -> bool:
        """Handle a packet; return False if it must wait, and is to be given again."""
        first = data[start]
        self._state.counters.work += WORK_OF_A_PACKET
        if first & 0xF0 == 0x30:
            if not self._general_publish.handle(connection, session, data, start, body, end):
                return False
            self._state.counters.publishes_received += 1
            self._state.counters.publish_bytes_received += end - start
        elif first == 0x40:
            self.acknowledgements.puback(session, data, body, end)
        elif first == 0x50:
            self.acknowledgements.pubrec(connection, session, data, range(body, end))
        elif first == 0x62:
            self.acknowledgements.pubrel(connection, session, data, range(body, end))
        elif first == 0x70:
            self.acknowledgements.pubcomp(session, data, body, end)
        elif first == 0x82:
            self._subscribe_queue.subscribe(connection, session, data, body, end)
        elif first == 0xA2:
            self._subscribe_queue.unsubscribe(connection, session, data, body, end)
        elif first == 0xC0:
            if end > body:
                raise malformed("PINGREQ with a body")
            self._state.output_gate.send(connection, PINGRESP)
        elif first == 0xE0:
            most_users = self._state.limits.user_properties
            self._lifecycle.leave(connection, session, read_disconnect(data, body, end, most_users))
        elif first == 0xF0:
            check_auth(data, body, end, self._state.limits.user_properties)
            raise violation("AUTH without enhanced authentication")
        elif first in _NOT_FROM_CLIENTS:
            raise violation(f"{_NOT_FROM_CLIENTS[first]} from a client")
        else:
            raise malformed(f"a packet cannot begin with 0x{first:02x}")
        self._state.counters.packets_received += 1
        return True
