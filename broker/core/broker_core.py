"""The core: bytes, answers and time in; bytes, requests and records out.

docs/broker-design.md describes how the shell works with it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from broker.codec.reason_codes import ReasonCode
from broker.core.core_state import make_state
from broker.core.journal import Record
from broker.core.limits import BrokerLimits
from broker.core.message import Message
from broker.core.publish.fast_fan_out import FanOut
from broker.core.publish.fast_publish import FastPublisher, Read
from broker.core.publish.gateway import GatewayRules
from broker.core.publish.general_publish import GeneralPublish
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.publish.router import Router
from broker.core.publish.share_groups import ShareGroups
from broker.core.publish.world_notifier import WorldNotifier
from broker.core.requests import Resolved
from broker.core.restore import StateRestore, durable_parts, renumber
from broker.core.retained.retained_delivery import RetainedWriter
from broker.core.sessions.connect import ConnectHandler
from broker.core.sessions.connection import Connection, State
from broker.core.sessions.dispatch import Acknowledgements, Dispatch
from broker.core.sessions.intake import Intake
from broker.core.sessions.session import Session
from broker.core.sessions.session_lifecycle import SessionLife
from broker.core.sessions.wills import Wills
from broker.core.subscribe.pair_quota import HeldNeighborhoods
from broker.core.subscribe.subscribe_handler import SubscribeHandler
from broker.core.subscribe.subscription import Subscription
from broker.core.subscribe.unsubscribe_handler import UnsubscribeHandler
from broker.core.sys_topics import SysTopics
from broker.core.verdicts import AccessControl, AllowAll, Verdict
from broker.filter.memberships import Memberships, NoMemberships, Slots

# Steps of cleaning memberships at a time, and seconds to the next, with and without more to do.
_SWEEP_STEPS: Final = 64
_SWEEP_SOON: Final = 0.005
_SWEEP_LATER: Final = 1.0


def random_client_id() -> str:
    """A client id that nobody can guess: whoever knows it could take the session over."""
    return f"spaps-{secrets.token_hex(12)}"


class Core:
    """One broker. All calls come from one thread; none waits, none raises for a client's sake.

    After each call the shell empties ``outbox`` and takes ``journal.take()``.
    """

    def __init__(  # noqa: PLR0913 - by name alone, and all but the clock have defaults
        self,
        *,
        clock: Callable[[], float],
        limits: BrokerLimits | None = None,
        memberships: Memberships | None = None,
        access: AccessControl | None = None,
        gateway: GatewayRules | None = None,
        durable: bool = False,
        new_client_id: Callable[[], str] = random_client_id,
        version: str = "0",
        sys_interval: float = 10.0,
    ) -> None:
        state = make_state(
            clock=clock,
            limits=BrokerLimits() if limits is None else limits,
            memberships=NoMemberships() if memberships is None else memberships,
            access=AllowAll() if access is None else access,
            gateway=GatewayRules() if gateway is None else gateway,
            durable=durable,
        )
        self._state = state
        self.outbox = state.outbox
        self.journal = state.journal
        self.counters = state.counters
        self.sessions = state.sessions
        self.retained = state.retained
        self.index = state.index
        self.limits = state.limits
        self.pairs = state.shares.pairs
        self.routes = state.routes
        self.shares = state.shares
        self.input_budget = state.input_budget
        self._message_delivery = MessageDelivery(state)
        self._retaining = RetainedWriter(state)
        groups = ShareGroups(state, self._message_delivery)
        self._message_delivery.pass_on = groups.pass_on
        router = Router(state, self._message_delivery, groups)
        self._publishing = GeneralPublish(state, router, self._retaining, self._resume)
        wills = Wills(state, self._publishing)
        self._life = SessionLife(state, wills)
        self._life.pass_on_all = groups.pass_on_all
        unsubscribing = UnsubscribeHandler(state, self._life)
        self._intake = Intake(
            state, self._life, FastPublisher(state, FanOut(state, self._message_delivery))
        )
        self._intake.connecting = ConnectHandler(
            state, self._life, self._message_delivery, self._resume, new_client_id
        )
        self._intake.dispatch = Dispatch(
            state,
            self._life,
            self._publishing,
            Acknowledgements(state, self._message_delivery),
            SubscribeHandler(state, self._message_delivery, unsubscribing),
        )
        # Bytes of a client, or of many. No methods of their own: every read comes here.
        self.receive: Callable[[Connection, bytes], None] = self._intake.receive
        self.receive_all: Callable[[Iterator[Read]], None] = self._intake.receive_all
        # Tells clients of the world in force; the shell calls it when that changes.
        self.telling = WorldNotifier(state, self._message_delivery, self._publishing.publish)
        # Neighborhoods whose members are not known yet; the shell asks for them.
        self.held = HeldNeighborhoods(state)
        if sys_interval:
            SysTopics(state, self._publishing.publish, version, sys_interval)
        state.timers.at(clock() + _SWEEP_LATER, self._sweep)

    # --- connections

    def open(
        self, peer: Any = None, address: str | None = None, host: str | None = None
    ) -> Connection:
        """Take a new connection; its client must send CONNECT in time.

        ``address`` is for the log. ``host`` is what quotas know the client's address by.
        """
        now = self._state.clock()
        connection = Connection(self._state.limits, now, peer)
        connection.address, connection.host = address, host
        connection.connect_timer = self._state.timers.at(
            now + self._state.limits.connect_timeout, lambda: self._life.give_up(connection)
        )
        self.counters.connections += 1
        return connection

    def output_of(self, connection: Connection) -> bytes:
        """What is to be written to a connection of ``outbox.writes``, which it leaves empty."""
        data = b"".join(connection.out)
        connection.out.clear()
        self.counters.bytes_sent += len(data)
        return data

    def pause_writing(self, connection: Connection) -> None:
        """The client does not read fast enough."""
        connection.is_paused = True
        if connection.session is not None:
            connection.session.direct = None

    def resume_writing(self, connection: Connection) -> None:
        """The client reads again."""
        connection.is_paused = False
        session = connection.session
        if session is not None and session.connection is connection:
            session.direct = connection if connection.takes_plain_copies else None
            self._message_delivery.drain(session)

    def connection_lost(self, connection: Connection) -> None:
        """The network connection is gone; called once for each, also after we closed it."""
        if connection.state is not State.CLOSED:
            self._life.detach(connection, "connection lost")

    def disconnect(self, connection: Connection, reason: ReasonCode, text: str) -> None:
        """Send a client away."""
        self._life.close(connection, reason, text)

    def end_session(self, session: Session) -> None:
        """End a session by an operator's decision; its client is disconnected with 0x98."""
        if session.connection is not None:
            self.disconnect(
                session.connection, ReasonCode.ADMINISTRATIVE_ACTION, "ended by an operator"
            )
        if self.sessions.find(session.name) is session:
            self._life.end(session)

    def shut_down(self) -> None:
        """Send everyone away, before the broker stops."""
        for session in list(self.sessions):
            if session.connection is not None:
                self.disconnect(
                    session.connection, ReasonCode.SERVER_SHUTTING_DOWN, "the broker stops"
                )

    # --- answers to requests

    def authenticated(
        self,
        ticket: int,
        reason: ReasonCode,
        user_name: str | None = None,
        text: str | None = None,
    ) -> None:
        """Answer ``Authenticate``: SUCCESS, and as whom, or why not, with a reason string."""
        self._state.pending_requests.answer(ticket, reason, user_name, text)

    def judged(self, ticket: int, verdict: Verdict) -> None:
        """Answer ``Judge``."""
        self._state.pending_requests.answer(ticket, verdict)

    def resolved(self, ticket: int, resolved: Resolved) -> None:
        """Answer ``Resolve``: the subscription is put in force, in this call or piece by piece."""
        self._state.pending_requests.answer(ticket, resolved, ReasonCode.SUCCESS, None)

    def refused(self, ticket: int, reason: ReasonCode, text: str) -> None:
        """Answer ``Resolve``: the neighborhood is not served, and why."""
        self._state.pending_requests.answer(ticket, None, reason, text)

    def looked_up(self, ticket: int, found: Mapping[int, Slots]) -> None:
        """Answer ``LookUp``: the slots of each peid asked for."""
        self._state.pending_requests.answer(ticket, found, None)

    def look_up_failed(self, ticket: int, text: str) -> None:
        """Answer ``LookUp``: memberships cannot be read."""
        self._state.pending_requests.answer(ticket, {}, text)

    # --- time

    def next_deadline(self) -> float | None:
        """When ``tick`` has something to do."""
        return self._state.timers.next_deadline()

    def tick(self) -> None:
        """Do what is due."""
        self._state.timers.run(self._state.clock())

    # --- what is kept

    def committed(self, position: int) -> None:
        """Everything up to a position of the journal is stored."""
        self.journal.committed = position
        self._state.output_gate.committed()

    def durable_state(self) -> Iterator[Record]:
        """All that must survive, as records: to store it afresh."""
        return chain.from_iterable(self.durable_parts())

    def durable_parts(self) -> Iterator[list[Record]]:
        """The same part by part, each as it is when it is asked for."""
        return durable_parts(self._state)

    def restore(self, records: Iterable[Record]) -> None:
        """Come back to a state that was stored; before the first connection."""
        StateRestore(self._state, self._life, self._retaining).restore(records)

    def slots_by_sub_id(self) -> Mapping[int, int]:
        """The slots of all neighborhood subscriptions in force, by subId."""
        return self._state.slots.by_sub_id

    def neighborhoods(self) -> list[Subscription]:
        """The neighborhood subscriptions in force."""
        return self._state.slots.living()

    def each_neighborhood(self) -> Iterator[Subscription]:
        """The same, looked at one by one while things go on."""
        return self._state.slots.each_living()

    def renumber(self, subscription: Subscription, sub_id: int) -> None:
        """The registry has given a subscription in force another subId."""
        renumber(self._state, subscription, sub_id)

    # --- the rest

    def access_changed(self, client_id: str | None = None) -> None:
        """Rights of one client, or of all, are other than before."""
        for session in self.sessions:
            if client_id is None or session.client_id == client_id:
                self._state.access.forget(session)
        self._state.access.forget_authors()
        self._state.routes.clear()

    def publish(self, message: Message) -> None:
        """Publish something of the broker's own."""
        self._publishing.publish(message)

    def _resume(self, connection: Connection) -> None:
        self._intake.resume(connection)

    def _sweep(self) -> None:
        has_more = self._state.memberships.sweep(_SWEEP_STEPS)
        delay = _SWEEP_SOON if has_more else _SWEEP_LATER
        self._state.timers.at(self._state.clock() + delay, self._sweep)
