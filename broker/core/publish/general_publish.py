"""The general path of a client's PUBLISH: rights, limits, memberships, retained, answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from broker.codec.fields import MAX_REMAINING_LENGTH, read_header
from broker.codec.publish import Publish
from broker.codec.reason_codes import ProtocolError, ReasonCode
from broker.core.core_state import CoreState
from broker.core.counters import WORK_OF_A_PUBLISH
from broker.core.journal import PacketReceived
from broker.core.message import NO_EXPIRY, Message
from broker.core.publish.publish_answers import (
    NEIGHBORHOOD_WAITS,
    NO_MEMBERSHIPS,
    PublishAnswers,
    RefusedPublish,
    entity_refusal,
    no_match_text,
    no_room_for,
    refusal_of,
)
from broker.core.publish.router import Router
from broker.core.retained.retained_messages import RetainedWriter
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.subscribe.routes import Route
from broker.core.verdicts import Action
from broker.filter.memberships import Slots

# Topics that a connection may publish to, as far as remembered; beyond that all are forgotten.
MOST_TOPICS: Final = 10_000
# Packets were compared with the real limit when they came in.
_NO_LIMIT: Final = 2 * MAX_REMAINING_LENGTH


class GeneralPublish:
    """Takes any PUBLISH. ``resume`` is called for a connection that waits no longer."""

    __slots__ = (
        "_answers", "_look_ahead", "_resume", "_retained_writer", "_router", "_state",
    )  # fmt: skip

    def __init__(
        self,
        state: CoreState,
        router: Router,
        retained_writer: RetainedWriter,
        answers: PublishAnswers,
        resume: Callable[[Connection], None],
    ) -> None:
        self._state = state
        self._router = router
        self._retained_writer = retained_writer
        self._resume = resume
        self._look_ahead = LookAhead(state, resume)
        self._answers = answers

    def handle(
        self, connection: Connection, session: Session, data: bytes, start: int, body: int, end: int
    ) -> bool:
        """Take a PUBLISH; return False if it must wait: then the connection is blocked."""
        most_users = self._state.limits.user_properties
        publish = connection.codec.read_publish(data, data[start], body, end, most_users)
        self._state.counters.work += WORK_OF_A_PUBLISH + publish.properties.users
        topic = publish.topic
        if publish.properties.alias is not None:
            topic = connection.aliases_in.resolve(publish.properties.alias, topic)
        route = self._state.routes.of(topic)
        if publish.qos == 2 and publish.packet_id in session.incoming.received:
            session.incoming.begin_qos2(publish.packet_id)
            self._answers.answer(connection, session, publish, ReasonCode.SUCCESS)
            return True
        if publish.qos == 1 and self._answers.must_wait(connection, session):
            return False
        if not self._may_publish(connection, session, topic, route):
            return False
        refusal = refusal_of(self._state, session, publish, route)
        if refusal is None and (key := self._key_to_ask(connection, route)) is not None:
            self._look_ahead.ask_keys(connection, data, start, key)
            return False
        refusal = refusal or entity_refusal(self._state, route, publish.properties.peid)
        slots: Slots | None = ()
        peid = route.gateway_peid if publish.properties.peid is None else publish.properties.peid
        if refusal is None and peid is not None and route.spatial:
            if route.is_waiting:
                refusal = NEIGHBORHOOD_WAITS
            elif peid in connection.failed:
                refusal = NO_MEMBERSHIPS
            else:
                slots = connection.found.get(peid)
                slots = self._state.memberships.look_up(peid) if slots is None else slots
        if slots is None:
            self._look_ahead.ask(connection, data, start, peid or 0)
            return False
        self._take(connection, session, publish, route, slots, refusal)
        return True

    def _may_publish(
        self, connection: Connection, session: Session, topic: bytes, route: Route
    ) -> bool:
        """Return whether the right is decided, one way or the other; else the connection waits."""
        if topic in connection.may_publish or not self._state.access.is_restricted:
            return True
        verdict = self._state.access.ask(
            session, route.topic, Action.PUBLISH, lambda _verdict: self._resume(connection)
        )
        if verdict is None:
            connection.is_blocked = True
            return False
        if not verdict.is_error:
            if len(connection.may_publish) >= MOST_TOPICS:
                connection.may_publish.clear()
            connection.may_publish.add(topic)
        return True

    def _key_to_ask(self, connection: Connection, route: Route) -> str | None:
        """Return the key in the topic if it must be asked which entity has it."""
        if self._state.keys.is_settled(route) or route.gateway_key in connection.failed:
            return None
        return route.gateway_key

    def _take(
        self,
        connection: Connection,
        session: Session,
        publish: Publish,
        route: Route,
        slots: Slots,
        refusal: RefusedPublish | None,
    ) -> None:
        if publish.qos == 1:
            session.incoming.begin_qos1()
        elif publish.qos == 2:
            session.incoming.begin_qos2(publish.packet_id)
        message = self._message(publish, route)
        if message.peid is not None:
            self._state.counters.spatial_publishes += 1
        if refusal is None:
            refusal = no_room_for(self._state, session, message)
        if refusal is not None:
            self._answers.refuse(connection, session, publish, message, refusal)
            return
        if message.retain:
            message.author = session.identity
            self._retained_writer.save(message)
        count = self._router.route(message, route, slots, session)
        if publish.qos == 2:
            session.incoming.accept_qos2(publish.packet_id)
            if session.is_recorded:
                self._state.journal.write(PacketReceived(session.name, publish.packet_id))
        reason = ReasonCode.SUCCESS if count else ReasonCode.NO_MATCHING_SUBSCRIBERS
        text = None if count or not publish.qos else no_match_text(self._state, message)
        if self._state.trace.is_on:
            self._state.trace.published(session, message, count, reason, text)
        self._answers.answer(connection, session, publish, reason, text)

    def _message(self, publish: Publish, route: Route) -> Message:
        properties, expiry = publish.properties, publish.properties.expiry
        expires_at = None if expiry is None else self._state.clock() + expiry
        peid, raw = properties.peid, properties.raw
        if peid is None and route.gateway_peid is not None:
            # Receivers are told which entity the topic names.
            peid, raw = route.gateway_peid, raw + route.peid_property
        return Message(
            route.topic,
            publish.payload,
            properties=raw,
            qos=publish.qos,
            retain=publish.retain,
            peid=peid,
            expires_at=expires_at,
            expiry_offset=properties.expiry_offset if expires_at is not None else NO_EXPIRY,
            topic_field=route.topic_field,
        )


class LookAhead:
    """Requests all that a chunk of input needs, and blocks its publisher until then."""

    __slots__ = ("_resume", "_state")

    def __init__(self, state: CoreState, resume: Callable[[Connection], None]) -> None:
        self._state = state
        self._resume = resume

    def ask(self, connection: Connection, data: bytes, start: int, peid: int) -> None:
        """Ask for every peid from the packet at ``start`` on, which is about ``peid``."""
        peids = tuple(dict.fromkeys((peid, *self._unknown_peids(connection, data, start))))

        def came(found: Mapping[int, Slots], error: str | None) -> None:
            if connection.is_blocked:
                connection.found = found
                connection.failed = frozenset() if error is None else frozenset(peids)
                self._resume(connection)

        connection.is_blocked = True
        self._state.ask_memberships(peids, came)

    def ask_keys(self, connection: Connection, data: bytes, start: int, key: str) -> None:
        """Do the same for every key that a topic names."""
        keys = tuple(dict.fromkeys((key, *self._unknown_keys(connection, data, start))))

        def came(error: str | None) -> None:
            if connection.is_blocked:
                connection.failed = frozenset() if error is None else frozenset(keys)
                self._resume(connection)

        connection.is_blocked = True
        self._state.keys.ask(keys, came)

    def _unknown_keys(self, connection: Connection, data: bytes, start: int) -> dict[str, None]:
        unknown: dict[str, None] = {}
        # Reported when its turn comes: the packets before it are served.
        with suppress(ProtocolError):
            for publish in self._publishes(connection, data, start):
                if publish.properties.alias is not None and not publish.topic:
                    continue
                route = self._state.routes.of(publish.topic)
                if route.gateway_key is not None and not self._state.keys.is_settled(route):
                    unknown[route.gateway_key] = None
        return unknown

    def _unknown_peids(self, connection: Connection, data: bytes, start: int) -> dict[int, None]:
        look_up, known = self._state.memberships.look_up, self._state.routes.by_topic
        unknown: dict[int, None] = {}
        with suppress(ProtocolError):
            for publish in self._publishes(connection, data, start):
                peid = publish.properties.peid
                if peid is None and (route := known.get(publish.topic)) is not None:
                    peid = route.gateway_peid
                if peid is not None and look_up(peid) is None:
                    unknown[peid] = None
        return unknown

    def _publishes(self, connection: Connection, data: bytes, position: int) -> Iterator[Publish]:
        """Yield the PUBLISH packets from a position on; ProtocolError at one that is wrong."""
        most_users, read = self._state.limits.user_properties, connection.codec.read_publish
        while position < len(data):
            header = read_header(data, position, _NO_LIMIT)
            if header is None or header[1] > len(data):
                break
            if data[position] & 0xF0 == 0x30:
                yield read(data, data[position], *header, most_users)
            position = header[1]
