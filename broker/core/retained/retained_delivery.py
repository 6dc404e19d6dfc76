"""Gives retained messages to new subscriptions, a piece at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.codec.reason_codes import ReasonCode
from broker.core.core_state import CoreState
from broker.core.counters import Drop
from broker.core.message import Message
from broker.core.retained.retained_backlog import RetainedBacklog
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.verdicts import Verdict

if TYPE_CHECKING:
    from broker.core.publish.message_delivery import MessageDelivery
from broker.codec.topics import SYSTEM_PREFIX
from broker.core.journal import RetainedRemoved, RetainedSaved
from broker.core.timers import Timer

# Retained messages written at one go, before others get their turn.
BACKLOG_BYTES: Final = 65_536
# To begin or end a search, or to look at a level of topics, takes as long as writing so many bytes.
SEARCH_COST: Final = 512
LEVEL_COST: Final = 16


class RetainedDelivery:
    """Works off the backlogs of connections."""

    __slots__ = ("_message_delivery", "_state")

    def __init__(self, state: CoreState, message_delivery: MessageDelivery) -> None:
        self._state = state
        self._message_delivery = message_delivery

    def go_on(self, session: Session, connection: Connection) -> None:
        """Go on with retained messages, a piece at a time, so that nobody else waits long."""
        if connection.backlog:
            self._go_on(session, connection)
            # What a search holds while it waits counts; who holds too much goes with the next read.
            self._state.input_budget.note(connection, connection.input_bytes)

    def _go_on(self, session: Session, connection: Connection) -> None:
        backlog = connection.backlog
        budget = BACKLOG_BYTES
        now = self._state.clock()
        while backlog and session.outgoing.is_idle and not connection.is_paused:
            if budget <= 0:
                self._state.timers.at(now, lambda: self._message_delivery.drain(session))
                return
            subscription = backlog[0].subscription
            if backlog[0].is_held:
                return
            message = backlog[0].next_message()
            if message is None:
                looked_at = backlog[0].search_on(self._state.retained)
                budget -= SEARCH_COST + LEVEL_COST * looked_at
                if not looked_at:
                    connection.end_backlog()
            elif not message.has_expired(now):
                verdict = self._author_verdict(session, message, backlog[0])
                if verdict is None:
                    return
                budget -= message.size
                if verdict.is_error:
                    self._state.counters.drops[Drop.NOT_ALLOWED] += 1
                else:
                    self._message_delivery.deliver(session, message, (subscription,), retain=True)

    def _author_verdict(
        self, receiver: Session, message: Message, backlog: RetainedBacklog
    ) -> Verdict | None:
        """Whether a retained message is still its author's to say; None: the backlog waits."""
        if message.author is None:
            return ReasonCode.SUCCESS

        def decided(_verdict: Verdict) -> None:
            backlog.is_held = False
            self._message_delivery.drain(receiver)

        verdict = self._state.access.ask_author(message.author, message.topic, decided)
        if verdict is None:
            backlog.hold()
        return verdict


class RetainedWriter:
    """Puts messages into the retained store and takes them out again."""

    __slots__ = ("_state", "_timers")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        # The deadlines under way, by topic: one for each, however often its message changes.
        self._timers: dict[str, Timer] = {}

    def keep(self, message: Message) -> None:
        """Take over a retained message; one without payload removes what its topic has."""
        store, journal = self._state.retained, self._state.journal
        if message.payload:
            store.put(message)
            self.watch(message)
            if journal.enabled and not message.topic.startswith(SYSTEM_PREFIX):
                journal.write(RetainedSaved(message))
        else:
            self._remove(message.topic)

    def watch(self, message: Message) -> None:
        """See to it that the message goes when it expires."""
        topic = message.topic
        if message.expires_at is not None and topic not in self._timers:
            at = self._state.timers.at(message.expires_at, lambda: self._due(topic))
            self._timers[topic] = at

    def _due(self, topic: str) -> None:
        self._timers.pop(topic, None)
        message = self._state.retained.find(topic)
        if message is None:
            return
        if message.has_expired(self._state.clock()):
            self._remove(topic)
        else:
            self.watch(message)

    def _remove(self, topic: str) -> None:
        timer = self._timers.pop(topic, None)
        if timer is not None:
            timer.cancel()
        if self._state.retained.remove(topic) and self._state.journal.enabled:
            self._state.journal.write(RetainedRemoved(topic))
