"""Keeps retained messages: stored, recorded, and removed when they expire."""

from __future__ import annotations

from broker.codec.topics import SYSTEM_PREFIX
from broker.core.core_state import CoreState
from broker.core.journal import RetainedRemoved, RetainedSaved
from broker.core.message import Message
from broker.core.timers import Timer


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
