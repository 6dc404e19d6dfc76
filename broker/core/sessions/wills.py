"""Wills: what is said in a client's name when it is gone."""

from __future__ import annotations

from broker.codec.packet_reader import WillFields
from broker.core.core_state import CoreState
from broker.core.counters import Drop
from broker.core.journal import Will
from broker.core.message import NO_EXPIRY, Message
from broker.core.publish.general_publish import GeneralPublish
from broker.core.sessions.session import Session, record_of
from broker.core.verdicts import Action, Verdict


def will_of(fields: WillFields, gateway_peid: int | None) -> Will:
    """The will of a CONNECT. Its expiry begins to count when it is sent."""
    properties = fields.properties
    has_expiry = properties.expiry is not None
    message = Message(
        fields.topic,
        fields.payload,
        properties=properties.raw,
        qos=fields.qos,
        retain=fields.retain,
        peid=gateway_peid if properties.peid is None else properties.peid,
        expiry_offset=properties.expiry_offset if has_expiry else NO_EXPIRY,
    )
    return Will(message, fields.delay)


class Wills:
    """Sends wills in time, or calls them off."""

    __slots__ = ("_publishing", "_state")

    def __init__(self, state: CoreState, publishing: GeneralPublish) -> None:
        self._state = state
        self._publishing = publishing

    def schedule(self, session: Session) -> None:
        """The client is gone: send its will, now or after its delay."""
        if session.will is None:
            return
        if not session.will.delay:
            self.send(session)
            return
        if session.will_at is None:
            session.will_at = self._state.clock() + session.will.delay
        session.will_timer = self._state.timers.at(session.will_at, lambda: self.send(session))

    def call_off(self, session: Session) -> None:
        """The client is back, or has taken leave."""
        session.will = None
        session.will_at = None
        if session.will_timer is not None:
            session.will_timer.cancel()
            session.will_timer = None

    def send(self, session: Session) -> None:
        """Publish the will, if its client may still do so."""
        will = session.will
        if will is None:
            return
        self.call_off(session)
        if session.is_recorded:
            # After a restart it must not be sent again.
            self._state.journal.write(record_of(session))

        def decided(verdict: Verdict) -> None:
            if verdict.is_error:
                self._state.counters.drops[Drop.WILL_NOT_ALLOWED] += 1
            else:
                self._publishing.publish(self._begin_expiry(will.message), session)

        verdict = self._state.access.ask_once(
            session.identity, will.message.topic, Action.PUBLISH, decided
        )
        if verdict is not None:
            decided(verdict)

    def _begin_expiry(self, message: Message) -> Message:
        if message.expiry_offset == NO_EXPIRY:
            return message
        offset = message.expiry_offset
        interval = int.from_bytes(message.properties[offset : offset + 4], "big")
        message.expires_at = self._state.clock() + interval
        return message
