"""The core: bytes, answers and time in; bytes, requests and records out.

docs/broker-design.md describes how the shell works with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from broker.codec.gateway_rules import GatewayRules
from broker.codec.reason_codes import ReasonCode
from broker.core.audience import Audiences
from broker.core.core_state import CoreState, KnowsEntity
from broker.core.counters import FilterSampler
from broker.core.journal import Record
from broker.core.limits import BrokerLimits
from broker.core.message import Message
from broker.core.publish.fast_paths import make_fast_paths
from broker.core.publish.fast_publish import Read
from broker.core.publish.general_publish import GeneralPublish
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.publish.own_messages import OwnMessages, SysTopics
from broker.core.publish.publish_answers import PublishAnswers
from broker.core.publish.router import Router
from broker.core.restore import StateRestore, durable_parts
from broker.core.retained.retained_messages import RetainedWriter
from broker.core.sessions.acknowledgements import Acknowledgements
from broker.core.sessions.connect import ConnectHandler, random_client_id
from broker.core.sessions.connection import Connection
from broker.core.sessions.intake import Intake
from broker.core.sessions.session import Session
from broker.core.sessions.session_lifecycle import SessionLifecycle
from broker.core.sessions.session_table import Wills
from broker.core.subscribe.named_subscriptions import NamedSubscriptions
from broker.core.subscribe.subscribe_queue import SubscribeQueue
from broker.core.trace import Watch
from broker.core.verdicts import AccessControl, AllowAll
from broker.core.world_changes import Neighborhoods, WorldNotifier
from broker.filter.memberships import Memberships, NoMemberships


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
        knows_entity: KnowsEntity = lambda _peid: None,
    ) -> None:
        self._state = state = CoreState(
            clock=clock,
            limits=limits or BrokerLimits(),
            memberships=NoMemberships() if memberships is None else memberships,
            access=access or AllowAll(),
            gateway=gateway or GatewayRules(),
            durable=durable,
            knows_entity=knows_entity,
        )
        self.outbox = state.outbox
        self.journal = state.journal
        self.counters = state.counters
        self.sessions = state.sessions
        self.retained = state.retained
        self.index = state.index
        self.limits = state.limits
        self.routes = state.routes
        self.shares = state.shares
        self.input_budget = state.input_budget
        self._message_delivery = delivery = MessageDelivery(state)
        self._retained_writer = retained = RetainedWriter(state)
        sampler, answers = FilterSampler(state), PublishAnswers(state, self._resume)
        router = Router(state, delivery, sampler)
        self._own_messages = OwnMessages(state, router, retained)
        acks = Acknowledgements(state, delivery)
        wills = Wills(state, self._own_messages)
        self._lifecycle = SessionLifecycle(state, wills, delivery.share_groups)
        self._intake = Intake(
            state,
            self._lifecycle,
            make_fast_paths(state, delivery, answers, acks, sampler),
            ConnectHandler(state, self._lifecycle, delivery, self._resume, new_client_id),
            GeneralPublish(state, router, retained, answers, self._resume),
            acks,
            SubscribeQueue(state, delivery, self._lifecycle),
        )
        # For the shell, when the world in force changes.
        self.world_notifier = WorldNotifier(state, delivery, self._own_messages.publish)
        self.neighborhoods = Neighborhoods(state)
        # For operators, who ask why a message does not arrive.
        self.audiences = Audiences(state)
        self.named_subscriptions = NamedSubscriptions(state)
        if sys_interval:
            SysTopics(state, self._own_messages.publish, version, sys_interval)

    # --- connections

    def open(
        self, peer: Any = None, address: str | None = None, host: str | None = None
    ) -> Connection:
        """Take a new connection; its client must send CONNECT in time.

        ``address`` is for the log. ``host`` is the address that quotas count.
        """
        now = self._state.clock()
        connection = Connection(self._state.limits, now, peer, address, host)
        connection.connect_timer = self._state.timers.at(
            now + self._state.limits.connect_timeout, lambda: self._lifecycle.give_up(connection)
        )
        self.counters.connections += 1
        return connection

    def receive(self, connection: Connection, data: bytes) -> None:
        """Take bytes of one connection."""
        self._intake.receive_all(iter(((connection, data),)))

    def receive_all(self, reads: Iterator[Read]) -> None:
        """Take bytes of any connections, in the order in which they came in.

        ``reads`` is an iterator, so that what was not taken is still in it if this should raise.
        """
        self._intake.receive_all(reads)

    def output_of(self, connection: Connection) -> bytes:
        """Return what is to be written to a connection of ``outbox.writes``, and remove it.

        The shell does this itself, for many connections at once.
        """
        data = b"".join(connection.out)
        connection.out.clear()
        self.counters.bytes_sent += len(data)
        return data

    def pause_writing(self, connection: Connection) -> None:
        """Note that the client does not read fast enough."""
        connection.is_paused = True
        if connection.session is not None:
            connection.session.connection_changed()

    def resume_writing(self, connection: Connection) -> None:
        """Note that the client reads again."""
        connection.is_paused = False
        session = connection.session
        if session is not None and session.connection is connection:
            session.connection_changed()
            self._message_delivery.drain(session)

    def connection_lost(self, connection: Connection) -> None:
        """Note that a connection is gone; called once for each, also after the core closed it."""
        if not connection.is_closed:
            self._lifecycle.detach(connection, "connection lost")

    def disconnect(self, connection: Connection, reason: ReasonCode, text: str) -> None:
        """Disconnect a client."""
        self._lifecycle.close(connection, reason, text)

    def end_session(self, session: Session) -> None:
        """End a session by an operator's decision; its client is disconnected with 0x98."""
        if session.connection is not None:
            reason = ReasonCode.ADMINISTRATIVE_ACTION
            self.disconnect(session.connection, reason, "ended by an operator")
        if self.sessions.find(session.name) is session:
            self._lifecycle.end(session)

    def shut_down(self) -> None:
        """Disconnect all clients, before the broker stops."""
        for session in list(self.sessions):
            if session.connection is not None:
                reason = ReasonCode.SERVER_SHUTTING_DOWN
                self.disconnect(session.connection, reason, "the broker stops")

    # --- traces

    def add_watch(self, watch: Watch) -> None:
        """Start to tell a watch what happens to its client or topic."""
        self._state.trace.add(watch)
        self._watches_changed(watch)

    def remove_watch(self, watch: Watch) -> None:
        """Stop to tell a watch."""
        self._state.trace.remove(watch)
        self._watches_changed(watch)

    def _watches_changed(self, watch: Watch) -> None:
        """Let packets of watched clients and topics leave the fast path, or take it again."""
        trace = self._state.trace
        if watch.client_id is None:
            self._state.routes.clear()
            return
        self._intake.leave_traced(clients=trace.covers_clients)
        for session in self.sessions.of_client_id(watch.client_id):
            session.is_traced = trace.covers_client(watch.client_id)
            session.connection_changed()

    # --- time

    def next_deadline(self) -> float | None:
        """Return when ``tick`` has something to do."""
        return self._state.timers.next_deadline()

    def tick(self) -> None:
        """Do what is due."""
        self._state.timers.run(self._state.clock())

    # --- the durable state

    def committed(self, position: int) -> None:
        """Note that everything up to a position of the journal is stored."""
        self._state.output_gate.commit(position)

    def commit_acknowledged(self) -> None:
        """Release promises that nothing in the journal holds back; no step may be on its way."""
        self._state.output_gate.commit_settled()

    def durable_parts(self) -> Iterator[list[Record]]:
        """Return all that must survive, for a store that begins again; each part as it is then."""
        return durable_parts(self._state)

    def restore(self, records: Iterable[Record]) -> None:
        """Restore a state that was stored; before the first connection."""
        StateRestore(self._state, self._lifecycle, self._retained_writer).restore(records)

    def access_changed(self, client_id: str | None = None) -> None:
        """Forget the verdicts about one client, or all, because rights have changed."""
        for session in self.sessions:
            if client_id is None or session.client_id == client_id:
                self._state.access.forget(session)
        self._state.access.forget_authors()
        self._state.routes.clear()

    def publish(self, message: Message) -> None:
        """Publish a message of the broker itself."""
        self._own_messages.publish(message)

    def _resume(self, connection: Connection) -> None:
        self._intake.resume(connection)
