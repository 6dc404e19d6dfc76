"""How sessions begin, are resumed, wait for their client and end."""

from __future__ import annotations

import logging

from mqtt5 import DisconnectPacket

from broker.codec.reason_codes import ReasonCode, violation
from broker.core.core_state import CoreState
from broker.core.journal import SessionEnded, SubscriptionRemoved, Will
from broker.core.limits import Account
from broker.core.publish.share_groups import ShareGroups
from broker.core.sessions.connection import Connection, State
from broker.core.sessions.session import NEVER_EXPIRES, Session
from broker.core.sessions.session_table import EndedSessions, Wills
from broker.core.subscribe.subscription import Subscription
from broker.core.verdicts import Identity, owner_of

log = logging.getLogger(__name__)


class SessionLifecycle:
    """The only place that connects sessions with connections."""

    __slots__ = ("_ended", "_share_groups", "_state", "_wills")

    def __init__(self, state: CoreState, wills: Wills, share_groups: ShareGroups) -> None:
        self._state = state
        self._wills = wills
        self._share_groups = share_groups
        self._ended = EndedSessions(state)

    def open(
        self, connection: Connection, identity: Identity, *, clean_start: bool
    ) -> tuple[Session, bool]:
        """Return the session for a connection, and whether it was there before.

        ProtocolError when there is no room for another one of its user or address.
        """
        sessions, name = self._state.sessions, identity.session_name
        session = sessions.find(name)
        if session is None:
            sessions.check_room(identity, connection.host)
        else:
            sessions.check_move(session, connection.host)
        if session is not None and session.connection is not None:
            text = "another connection uses this client id"
            self.close(session.connection, ReasonCode.SESSION_TAKEN_OVER, text)
            # Without an expiry the session ended with the connection it had.
            session = sessions.find(name)
        if session is not None and clean_start:
            self.end(session)
            session = None
        is_present = session is not None
        if session is None:
            session = Session(identity, self._state.limits, connection.host, self._state.shares)
            sessions.add(session)
        self._wills.cancel(session)
        self._stop_waiting(session)
        sessions.move(session, connection.host)
        session.connection = connection
        connection.session = session
        if self._state.trace.is_on:
            session.is_traced = self._state.trace.covers_client(session.client_id)
        sessions.count_connected(1)
        return session, is_present

    def queue_account(self, connection: Connection, identity: Identity) -> Account:
        """Return what the will of a client counts for, before its session is opened."""
        session = self._state.sessions.find(identity.session_name)
        if session is not None:
            return session.queue_account
        return self._state.shares.queues.account_of(owner_of(identity, connection.host))

    def apply_connect(self, session: Session, expiry_interval: int, will: Will | None) -> None:
        """Set what CONNECT asked for, and record the session if it will outlive its connection."""
        was_recorded = session.is_recorded
        session.expiry_interval = self.capped(expiry_interval)
        session.will = will
        session.is_recorded = self._state.journal.enabled and session.expiry_interval > 0
        if session.is_recorded:
            self._state.journal.write(session.record())
        elif was_recorded:
            # It ends with this connection, so it must not come back after a restart.
            self._state.journal.write(SessionEnded(session.name))

    def capped(self, expiry_interval: int) -> int:
        """Return the expiry interval that is granted."""
        return min(expiry_interval, self._state.limits.session_expiry)

    def close(
        self, connection: Connection, reason: ReasonCode | None, text: str | None = None
    ) -> None:
        """End a connection from the broker's side, with a DISCONNECT if ``reason`` is given.

        ``text`` is its reason string; the log has it in any case. Only MQTT 5 has both.
        """
        if connection.state is State.CLOSED:
            return
        if reason is not None and connection.state is State.CONNECTED:
            write = connection.codec.disconnect
            packet = connection.best_packet(write(reason, None), lambda: write(reason, text))
            if packet:
                self._state.output_gate.send(connection, packet)
        why = "closed by the broker" if reason is None else reason.name.lower()
        self.detach(connection, text or why)
        self._state.outbox.closing.append(connection)

    def leave(self, connection: Connection, session: Session, packet: DisconnectPacket) -> None:
        """Take DISCONNECT: no will is sent then, unless the client asks for it."""
        interval = packet.session_expiry_interval
        if interval is not None:
            if interval and not session.expiry_interval:
                raise violation("a session expiry after a CONNECT without one")
            session.expiry_interval = self.capped(interval)
        if int(packet.reason_code) == ReasonCode.SUCCESS:
            self._wills.cancel(session)
        self.close(connection, None, f"the client left with code 0x{int(packet.reason_code):02x}")

    def give_up(self, connection: Connection) -> None:
        """Close a connection whose client has not sent CONNECT in time."""
        log.info("client refused: no CONNECT in time", extra=connection.log_fields)
        self.close(connection, None)

    def detach(self, connection: Connection, why: str) -> None:
        """Let the session of a connection that is no more wait for another one, or end it."""
        if connection.state is State.CONNECTED:
            fields = connection.log_fields | connection.refusals.take_left_out()
            log.info("client disconnected: %s", why, extra=fields)
        connection.end()
        connection.held.clear()
        connection.backlog.clear()
        connection.subscribe_queue.clear()
        connection.inbox.pending.clear()
        connection.may_publish.clear()
        self._state.input_budget.forget(connection)
        self._state.output_gate.forget(connection)
        for timer in (connection.connect_timer, connection.keep_alive_timer):
            if timer is not None:
                timer.cancel()
        session = connection.session
        if session is None or session.connection is not connection:
            return
        session.connection = None
        session.connection_changed()
        session.outgoing.charge()
        self._state.sessions.count_connected(-1)
        if session.verdicts:
            self._state.routes.reader_left()
            self._state.access.forget(session)
        if not session.expiry_interval:
            self.end(session)
            return
        session.expires_at = self._state.clock() + session.expiry_interval
        self.wait(session)
        if session.is_recorded:
            self._state.journal.write(session.record())

    def wait(self, session: Session) -> None:
        """Start the deadlines of a session without a connection."""
        self._wills.schedule(session)
        if session.expires_at is not None and session.expiry_interval != NEVER_EXPIRES:
            session.expiry_timer = self._state.timers.at(
                session.expires_at, lambda: self._expire(session)
            )

    def end(self, session: Session) -> None:
        """End a session with everything it holds; its will is sent now."""
        self._stop_waiting(session)
        session.has_ended = True
        self._state.sessions.remove(session)
        self._ended.add(session)
        self._share_groups.pass_on_all(session)
        session.outgoing.clear()
        session.incoming.clear()
        if session.is_recorded:
            self._state.journal.write(SessionEnded(session.name))
            session.is_recorded = False
        self._wills.send(session)

    def drop_subscription(self, session: Session, subscription: Subscription) -> None:
        """Take a subscription out of force and out of the session."""
        self._state.index.leave(subscription)
        terms = subscription.terms
        del session.subscriptions[terms.key]
        if terms.sub_id is not None:
            self._state.forget(terms.sub_id)
        if session.is_recorded:
            self._state.journal.write(SubscriptionRemoved(session.name, terms.key))

    def _expire(self, session: Session) -> None:
        self._state.counters.sessions_expired += 1
        self.end(session)

    def _stop_waiting(self, session: Session) -> None:
        if session.expiry_timer is not None:
            session.expiry_timer.cancel()
            session.expiry_timer = None
        session.expires_at = None
