"""Acknowledgements of deliveries: PUBACK, PUBREC and PUBCOMP, and PUBREL of a client."""

from __future__ import annotations

from struct import Struct
from typing import Final

from broker.codec.packet_reader import RECEIPT_CODES, RELEASE_CODES
from broker.codec.packet_writer import PUBCOMP, PUBREL
from broker.codec.reason_codes import ReasonCode, violation
from broker.core.core_state import CoreState
from broker.core.journal import MessageReleased, PacketReleased
from broker.core.message import Stage
from broker.core.plain_delivery import RECORD, SIZE
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session

# First byte and length of a PUBACK without a reason, and its packet identifier.
_PUBACKS: Final = Struct(">HH")
_SHORT_PUBACK: Final = 0x4002


class Acknowledgements:
    """Handles the acknowledgements of deliveries, after which the next ones may start."""

    __slots__ = ("_message_delivery", "_most_users", "_state")

    def __init__(self, state: CoreState, message_delivery: MessageDelivery) -> None:
        self._state = state
        self._message_delivery = message_delivery
        self._most_users = state.limits.user_properties

    def pubacks(self, session: Session, data: bytes, position: int) -> int:
        """Take short PUBACK packets in a row, as busy clients send them; return where they end."""
        flow, start, journal = session.outgoing, position, self._state.journal
        unacknowledged = flow.unacknowledged
        plain = plain_bytes = 0
        whole = (len(data) - start) & ~3
        for head, packet_id in _PUBACKS.iter_unpack(data[start : start + whole]):
            if head != _SHORT_PUBACK:
                break
            one = unacknowledged.get(packet_id)
            if isinstance(one, tuple):
                del unacknowledged[packet_id]
                plain += 1
                plain_bytes += one[SIZE]
                if one[RECORD]:
                    journal.plain_done(session, one)
            elif one is not None:
                if one.qos != 1:
                    break
                self._finish(session, packet_id)
            elif not packet_id:
                break
            position += 4
        if plain:
            flow.finish_plain(plain, plain_bytes)
            self._go_on(session)
        self._state.counters.packets_received += (position - start) >> 2
        self._state.counters.puback_bytes_received += position - start
        return position

    def puback(self, connection: Connection, session: Session, data: bytes, at: range) -> None:
        """Take PUBACK: the client has a QoS 1 message, or refuses it; either way it is done."""
        packet_id, _ = self._read(connection, data, at, RECEIPT_CODES)
        _check_qos(session, packet_id, 1, "PUBACK")
        self._finish(session, packet_id)

    def pubrec(self, connection: Connection, session: Session, data: bytes, at: range) -> None:
        """Take PUBREC: the client has a QoS 2 message, which is never sent again, only released."""
        packet_id, reason = self._read(connection, data, at, RECEIPT_CODES)
        _check_qos(session, packet_id, 2, "PUBREC")
        if reason >= 0x80:
            self._finish(session, packet_id)
            return
        delivery = session.outgoing.release(packet_id)
        if delivery is None:
            not_found = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
            unknown = connection.codec.acknowledgement(PUBREL, packet_id, not_found, None)
            self._state.output_gate.send(connection, unknown)
            return
        journal = self._state.journal
        if session.is_recorded and delivery.position:
            journal.write(MessageReleased(session.name, delivery.position))
        packet = connection.codec.acknowledgement(PUBREL, packet_id, ReasonCode.SUCCESS, None)
        self._state.output_gate.promise(connection, packet)

    def pubrel(self, connection: Connection, session: Session, data: bytes, at: range) -> None:
        """Take PUBREL: the client will not send this message again, so its identifier is free."""
        packet_id, _ = self._read(connection, data, at, RELEASE_CODES)
        reason = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        if session.incoming.release(packet_id):
            reason = ReasonCode.SUCCESS
            if session.is_recorded:
                self._state.journal.write(PacketReleased(session.name, packet_id))
        packet = connection.codec.acknowledgement(PUBCOMP, packet_id, reason, None)
        self._state.output_gate.promise(connection, packet)

    def pubcomp(self, connection: Connection, session: Session, data: bytes, at: range) -> None:
        """Take PUBCOMP: a QoS 2 message is done."""
        packet_id, _ = self._read(connection, data, at, RELEASE_CODES)
        _check_qos(session, packet_id, 2, "PUBCOMP")
        delivery = session.outgoing.find(packet_id)
        if delivery is not None and delivery.stage is not Stage.RELEASED:
            raise violation("PUBCOMP for a message that has had no PUBREC")
        self._finish(session, packet_id)

    def _read(
        self, connection: Connection, data: bytes, at: range, codes: frozenset[int]
    ) -> tuple[int, int]:
        """Return packet identifier and reason code."""
        read = connection.codec.read_acknowledgement
        return read(data, at.start, at.stop, codes, self._most_users)

    def _finish(self, session: Session, packet_id: int) -> None:
        delivery = session.outgoing.finish(packet_id)
        if delivery is None:
            return
        session.record_done(self._state.journal, delivery)
        self._go_on(session)

    def _go_on(self, session: Session) -> None:
        """Send what waited for an acknowledgement."""
        if session.outgoing.queue or (session.connection and session.connection.backlog):
            self._message_delivery.drain(session)


def _check_qos(session: Session, packet_id: int, qos: int, name: str) -> None:
    """Refuse an acknowledgement of the wrong kind; one of an unknown message is only late."""
    delivery = session.outgoing.find(packet_id)
    if delivery is not None and delivery.qos != qos:
        raise violation(f"{name} for a message of QoS {delivery.qos}")
