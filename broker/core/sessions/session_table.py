"""All sessions, connected or not: their quotas, and what is done at their end.

A session belongs to a user name and a client id together. So the answer to a client never
depends on what another user holds under the same client id.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from broker.codec.packet_reader import WillFields
from broker.codec.reason_codes import ProtocolError, ReasonCode
from broker.core.counters import Drop
from broker.core.journal import Will
from broker.core.limits import BrokerLimits
from broker.core.message import NO_EXPIRY, Message
from broker.core.sessions.refusal_log import log_refused_will
from broker.core.sessions.session import Session
from broker.core.verdicts import Action, Identity, Owner, Verdict, owner_of

if TYPE_CHECKING:
    from broker.core.core_state import CoreState
    from broker.core.publish.own_messages import OwnMessages

# Subscriptions of ended sessions taken out at once: one or two milliseconds.
ENDED_AT_ONCE: Final = 250


class SessionTable:
    """Sessions by name, counted by their owner."""

    __slots__ = ("_limits", "_of_owner", "_sessions", "connected", "most_connected", "refused")

    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._sessions: dict[str, Session] = {}
        self._of_owner: Counter[Owner] = Counter()
        self.connected = 0
        self.most_connected = 0
        # New sessions that were refused, by the limit that was reached.
        self.refused: Counter[str] = Counter(dict.fromkeys(("total", "user", "address"), 0))

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        """Return all sessions."""
        return iter(self._sessions.values())

    def find(self, name: str) -> Session | None:
        """Return the session of a name (``Identity.session_name``)."""
        return self._sessions.get(name)

    def of_client_id(self, client_id: str) -> list[Session]:
        """Return the sessions that users have under a client id."""
        return [one for one in self if one.client_id == client_id]

    def check_room(self, identity: Identity, host: str | None) -> None:
        """Raise ProtocolError unless the client may have one more session.

        Clients without a user name are distinguished by their address, as far as it is known.
        """
        if identity.user_name is None:
            self._check_address(identity, host)
        elif (held := self._held(identity, host)) >= self._limits.sessions_of_user:
            raise self._refusal("user", f"this user name has {held} sessions, which is the limit")
        if len(self) >= self._limits.sessions:
            raise self._refusal("total", "the broker has no room for another session")

    def check_move(self, session: Session, host: str | None) -> None:
        """Raise ProtocolError unless the session may count for the address of its client.

        Else sessions made from one address and used from another would have no limit. Those of
        an unknown address may go anywhere: earlier releases noted none.
        """
        if session.identity.user_name is None and session.host not in (None, host):
            self._check_address(session.identity, host)

    def add(self, session: Session) -> None:
        """Add a new session."""
        self._sessions[session.name] = session
        self._count(session, 1)

    def remove(self, session: Session) -> None:
        """Remove a session that has ended."""
        del self._sessions[session.name]
        self._count(session, -1)

    def move(self, session: Session, host: str | None) -> None:
        """Note that the client of a session comes from another address."""
        if session.host != host:
            self._count(session, -1)
            session.host = host
            self._count(session, 1)

    def rename(self, session: Session, name: str) -> None:
        """Give a session another name."""
        del self._sessions[session.name]
        session.name = name
        self._sessions[name] = session

    def count_connected(self, change: int) -> None:
        """Note that a session got or lost its connection."""
        self.connected += change
        self.most_connected = max(self.most_connected, self.connected)

    def _check_address(self, identity: Identity, host: str | None) -> None:
        held = self._held(identity, host)
        if held >= self._limits.sessions_of_address:
            raise self._refusal("address", f"this address has {held} sessions, which is the limit")

    def _held(self, identity: Identity, host: str | None) -> int:
        owner = owner_of(identity, host)
        return 0 if owner is None else self._of_owner[owner]

    def _count(self, session: Session, change: int) -> None:
        owner = owner_of(session.identity, session.host)
        if owner is not None:
            self._of_owner[owner] += change
            if not self._of_owner[owner]:
                del self._of_owner[owner]

    def _refusal(self, cause: str, text: str) -> ProtocolError:
        self.refused[cause] += 1
        return ProtocolError(ReasonCode.QUOTA_EXCEEDED, text)


def will_of(fields: WillFields) -> Will:
    """Return the will of a CONNECT.

    When it is sent its expiry begins to count, and its topic may name its entity.
    """
    properties = fields.properties
    has_expiry = properties.expiry is not None
    message = Message(
        fields.topic,
        fields.payload,
        properties=properties.raw,
        qos=fields.qos,
        retain=fields.retain,
        peid=properties.peid,
        expiry_offset=properties.expiry_offset if has_expiry else NO_EXPIRY,
    )
    return Will(message, fields.delay)


class Wills:
    """Sends wills in time, or cancels them."""

    __slots__ = ("_own_messages", "_state")

    def __init__(self, state: CoreState, own_messages: OwnMessages) -> None:
        self._state = state
        self._own_messages = own_messages

    def schedule(self, session: Session) -> None:
        """Send the will of a client that is gone, now or after its delay."""
        if session.will is None:
            return
        if not session.will.delay:
            self.send(session)
            return
        if session.will_at is None:
            session.will_at = self._state.clock() + session.will.delay
        session.will_timer = self._state.timers.at(session.will_at, lambda: self.send(session))

    def cancel(self, session: Session) -> None:
        """Remove the will of a client that is back, or has sent DISCONNECT."""
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
        self.cancel(session)
        if session.is_recorded:
            # After a restart it must not be sent again.
            self._state.journal.write(session.record())
        topic = will.message.topic

        def decided(verdict: Verdict) -> None:
            if verdict.is_error:
                self._state.counters.drops[Drop.WILL_NOT_ALLOWED] += 1
                log_refused_will(session.identity, session.host, topic, verdict)
            else:
                self._own_messages.publish(self._begin_expiry(will.message), session)

        verdict = self._state.access.ask_once(session.identity, topic, Action.PUBLISH, decided)
        if verdict is not None:
            decided(verdict)

    def _begin_expiry(self, message: Message) -> Message:
        if message.expiry_offset == NO_EXPIRY:
            return message
        offset = message.expiry_offset
        interval = int.from_bytes(message.properties[offset : offset + 4], "big")
        message.expires_at = self._state.clock() + interval
        return message


class EndedSessions:
    """Takes the subscriptions of sessions that have ended out of force, some at a time.

    Nothing is delivered for these any more.
    """

    __slots__ = ("_sessions", "_state")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._sessions: deque[Session] = deque()

    def add(self, session: Session) -> None:
        """Take out the first subscriptions of a session at once, and then the rest.

        Its neighborhoods are unregistered at once. If that were done later, a client that comes
        back and makes the same ones again could lose them.
        """
        slots, spatial = self._state.slots, []
        if session.neighborhoods:
            spatial = [one for one in session.subscriptions.values() if one.terms.nsid is not None]
        for subscription in spatial:
            slots.vacate(subscription)
        numbers = tuple(one.terms.sub_id for one in spatial if one.terms.sub_id is not None)
        if numbers:
            self._state.forget(*numbers)
        if session.subscriptions:
            self._sessions.append(session)
            if len(self._sessions) == 1:
                self._take_out_some()

    def _take_out_some(self) -> None:
        left = ENDED_AT_ONCE
        while self._sessions and left:
            held = self._sessions[0].subscriptions
            while held and left:
                self._state.index.leave(held.popitem()[1])
                left -= 1
            if not held:
                self._sessions.popleft()
        if self._sessions:
            self._state.soon(self._take_out_some)
