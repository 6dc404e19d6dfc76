"""CONNECT: authentication, rights, the session, and CONNACK."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import Final

from broker.codec.gateway_rules import contradiction
from broker.codec.packet_reader import Connect, WillFields, read_connect, read_connect_head
from broker.codec.packet_reader_3 import read_connect_3
from broker.codec.packet_writer import PUBREL, ConnackFields, acknowledgement
from broker.codec.protocol_levels import MQTT_3_1_1, codec_of
from broker.codec.reason_codes import OldProtocolError, ProtocolError, ReasonCode
from broker.core.core_state import CoreState
from broker.core.counters import Refusal
from broker.core.journal import Will
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.requests import Authenticate
from broker.core.sessions.connection import Connection, OutgoingAliases, State
from broker.core.sessions.connection_faults import KeepAlive
from broker.core.sessions.flow_control import MAX_PACKET_ID
from broker.core.sessions.session import Session, will_bytes
from broker.core.sessions.session_lifecycle import SessionLifecycle
from broker.core.sessions.session_table import will_of
from broker.core.verdicts import Action, Identity, Verdict

log = logging.getLogger(__name__)

RESPONSE_PREFIX: Final = "response/"


def random_client_id() -> str:
    """Return a client id that cannot be guessed: with it another client could take the session."""
    return f"spaps-{secrets.token_hex(12)}"


class ConnectHandler:
    """Handles the first packet of a client. The connection is blocked until CONNACK is sent."""

    __slots__ = (
        "_keep_alive", "_lifecycle", "_message_delivery", "_new_client_id", "_resume", "_state",
    )  # fmt: skip

    def __init__(
        self,
        state: CoreState,
        lifecycle: SessionLifecycle,
        message_delivery: MessageDelivery,
        resume: Callable[[Connection], None],
        new_client_id: Callable[[], str],
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._keep_alive = KeepAlive(state, lifecycle)
        self._message_delivery = message_delivery
        self._resume = resume
        self._new_client_id = new_client_id

    def handle(self, connection: Connection, data: bytes, body: int, end: int) -> None:
        """Take CONNECT and request authentication; the rest follows when that is decided."""
        connection.state = State.CONNECTING
        connection.use(codec_of(data, body, end))
        connect = self._read(connection, data, body, end)
        packet = connect.packet
        connection.wants_reasons = packet.request_problem_info
        if packet.authentication_method is not None:
            text = "enhanced authentication is not offered"
            raise ProtocolError(ReasonCode.BAD_AUTHENTICATION_METHOD, text)
        client_id = packet.client_id or self._new_client_id()
        connection.claim = Identity(client_id, packet.username)
        if len(client_id.encode()) > self._state.limits.client_id_bytes:
            text = f"a client identifier of more than {self._state.limits.client_id_bytes} bytes"
            raise ProtocolError(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, text)
        self._check_will(connect.will)
        connection.is_blocked = True

        def decided(reason: ReasonCode, user_name: str | None, text: str | None) -> None:
            def step() -> None:
                if reason.is_error:
                    raise ProtocolError(reason, text or "not let in")
                self._authenticated(connection, connect, Identity(client_id, user_name))

            self._guarded(connection, step)

        self._state.outbox.requests.append(
            Authenticate(connection, client_id, packet.username, packet.password, decided)
        )

    def _read(self, connection: Connection, data: bytes, body: int, end: int) -> Connect:
        """Return the CONNECT of a client whose version is known."""
        if not connection.has_properties:
            return read_connect_3(data, body, end, connection.codec.level)
        most_users = self._state.limits.user_properties_before_connect
        head = read_connect_head(data, body, end, most_users)
        # Known first, because a refusal must be within it.
        connection.maximum_packet_size = head.maximum_packet_size
        return read_connect(data, body, end, head, most_users)

    def refuse(self, connection: Connection, error: ProtocolError) -> None:
        """Answer a CONNECT that is not accepted, and close."""
        self._state.counters.refused_connects += 1
        if isinstance(error, OldProtocolError):
            connection.use(MQTT_3_1_1)
        reason = {"reason": error.reason.name.lower()}
        log.info("client refused: %s", error, extra=connection.log_fields | reason)
        answer = self._refusal(connection, error)
        if answer:
            self._state.output_gate.send(connection, answer)
        self._lifecycle.close(connection, None)

    def _refusal(self, connection: Connection, error: ProtocolError) -> bytes:
        """Return the longest CONNACK that the client takes; empty when it takes none."""
        write = connection.codec.connack_refusal
        plain = write(error.reason, None)
        answer = connection.best_packet(plain, lambda: write(error.reason, str(error)))
        return answer if connection.takes(len(answer)) else b""

    def _check_will(self, will: WillFields | None) -> None:
        if will is None:
            return
        route = self._state.routes.of(will.topic.encode())
        if route.refusal is not None:
            raise ProtocolError(route.refusal, "the will's topic is not accepted")
        properties = will.properties
        wrong = properties.peid_error or contradiction(route.gateway_peid, properties.peid)
        if wrong is not None:
            raise ProtocolError(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, f"will: {wrong}")

    def _authenticated(self, connection: Connection, connect: Connect, identity: Identity) -> None:
        if connect.will is None:
            self._open(connection, connect, identity)
            return

        def judged(verdict: Verdict) -> None:
            if verdict.is_error:
                raise ProtocolError(verdict, "the will's topic is not allowed")
            self._open(connection, connect, identity)

        verdict = self._state.access.ask_once(
            identity,
            connect.will.topic,
            Action.PUBLISH,
            lambda answer: self._guarded(connection, lambda: judged(answer)),
        )
        if verdict is not None:
            judged(verdict)

    def _guarded(self, connection: Connection, step: Callable[[], None]) -> None:
        """Take a step that an answer allows; the client may be gone by now, or be refused."""
        if connection.state is State.CLOSED:
            return
        try:
            step()
        except ProtocolError as error:
            self.refuse(connection, error)

    def _open(self, connection: Connection, connect: Connect, identity: Identity) -> None:
        packet, limits = connect.packet, self._state.limits
        will = self._will(connection, connect.will, identity)
        session, is_present = self._lifecycle.open(
            connection, identity, clean_start=packet.clean_start
        )
        self._lifecycle.apply_connect(session, packet.session_expiry_interval, will)
        connection.keep_alive = self._keep_alive.interval(connection, packet.keep_alive)
        if packet.topic_alias_max and limits.topic_aliases_out:
            connection.aliases_out = OutgoingAliases(
                min(packet.topic_alias_max, limits.topic_aliases_out), limits.topic_alias_bytes
            )
        granted = session.expiry_interval
        has_own_id = bool(packet.client_id)
        fields = ConnackFields(
            session_present=is_present,
            receive_maximum=limits.receive_maximum,
            maximum_packet_size=limits.packet_bytes,
            topic_alias_maximum=limits.topic_aliases_in,
            session_expiry=granted if granted != packet.session_expiry_interval else None,
            assigned_client_id=None if has_own_id else identity.client_id,
            server_keep_alive=(
                connection.keep_alive if connection.keep_alive != packet.keep_alive else None
            ),
            response_information=(
                response_information(identity.client_id) if packet.request_response_info else None
            ),
        )
        answer = connection.codec.connack(fields)
        if not connection.takes(len(answer)):
            # Not even CONNACK may be sent to it. It was never served, so its will is void.
            log.info("client refused: maximum packet size too small", extra=connection.log_fields)
            self._state.counters.refused_connects += 1
            self._lifecycle.apply_connect(session, packet.session_expiry_interval, None)
            self._lifecycle.close(connection, None)
            return
        self._state.output_gate.promise(
            connection, answer, lambda: self._begin(connection, session, packet.receive_max)
        )

    def _will(
        self, connection: Connection, fields: WillFields | None, identity: Identity
    ) -> Will | None:
        """Return the will of a CONNECT; ProtocolError when there is no room for it."""
        if fields is None:
            return None
        will = will_of(fields)
        account = self._lifecycle.queue_account(connection, identity)
        if not account.has_room(will_bytes(will)):
            self._state.counters.refusals[Refusal.WILLS] += 1
            text = "no room for the will: too much waits for clients"
            raise ProtocolError(ReasonCode.QUOTA_EXCEEDED, text)
        return will

    def _begin(self, connection: Connection, session: Session, receive_maximum: int) -> None:
        """Go on where the session was left, after CONNACK was sent."""
        connection.begin()
        limits = self._state.limits
        connection.packet_limit = limits.packet_bytes
        if connection.connect_timer is not None:
            connection.connect_timer.cancel()
        # A client of MQTT 3 knows of no receive maximum; its packet identifiers are the limit.
        most_open = limits.receive_maximum if connection.has_properties else MAX_PACKET_ID
        session.incoming.restart(most_open)
        session.connection_changed()
        self._keep_alive.watch(connection)
        connection.connected_at = self._state.clock()
        protocol = {"protocol": connection.codec.name}
        log.info("client connected", extra=connection.log_fields | protocol)
        for delivery in session.outgoing.restart(receive_maximum):
            release = acknowledgement(PUBREL, delivery.packet_id)
            self._state.output_gate.promise(connection, release)
        self._message_delivery.drain(session)
        self._resume(connection)


def response_information(client_id: str) -> str | None:
    """Return the topic for responses to a client; None if its client id cannot be in a topic."""
    if "+" in client_id or "#" in client_id:
        return None
    return RESPONSE_PREFIX + client_id
