"""Retained messages in a tree of topics, limited by count and bytes, and their expiry."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from broker.codec.fields import SYSTEM_PREFIX
from broker.core.journal import RetainedRemoved, RetainedSaved
from broker.core.limits import BrokerLimits
from broker.core.message import Message
from broker.core.retained.retained_delivery import RetainedSearch
from broker.core.subscribe.topic_tree import LEVEL_BYTES, RetainedLevel

if TYPE_CHECKING:
    from broker.core.core_state import CoreState, Timer

# The objects of a message without their content, and its journal record, as measured.
MESSAGE_BYTES: Final = 400


class RetainedStore:
    """The last retained message of each topic. The broker's own $SYS values are not counted."""

    __slots__ = ("_held", "_limits", "_reserved", "_root", "births", "bytes", "count")

    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._root = RetainedLevel()
        # Topics that begin with $: a wildcard at the start of a filter does not reach them.
        self._reserved = RetainedLevel()
        # The number of the last message for a topic that had none.
        self.births = 0
        self.count = 0
        self.bytes = 0
        # By user name: messages, and their bytes with all levels of their topics.
        self._held: dict[str | None, tuple[int, int]] = {}

    def find(self, topic: str) -> Message | None:
        """Return the retained message of a topic, expired or not."""
        level: RetainedLevel | None = self._root_of(topic)
        for name in topic.split("/"):
            level = level.child(name) if level is not None else None
        return level.message if level is not None else None

    def has_room_for(self, message: Message, user_name: str | None) -> bool:
        """Return whether a user's message can replace what its topic has now.

        A user may hold as much as is free for all others, as in ``FairShare``.
        """
        if message.topic.startswith(SYSTEM_PREFIX):
            return True
        before = self.find(message.topic)
        size = message.size + MESSAGE_BYTES + LEVEL_BYTES * self._missing_levels(message.topic)
        count, held = self._held.get(user_name, (0, 0))
        own, more = _bytes_of(message), 1
        if before is not None:
            size -= before.size + MESSAGE_BYTES
            if _user_of(before) == user_name:
                own, more = own - _bytes_of(before), 0
            if size <= 0 and own <= 0:
                return True
        free = self._limits.retained_bytes - self.bytes - size
        left = self._limits.retained_messages - self.count - (before is None)
        return held + own <= free and (not more or count + 1 <= left)

    def put(self, message: Message) -> None:
        """Keep a message instead of what its topic has now."""
        level, number = self._root_of(message.topic), self.births + 1
        for name in message.topic.split("/"):
            below = level.child(name)
            if below is None:
                below = level.add(name, number)
                self.bytes += LEVEL_BYTES
            level = below
        if level.message is not None:
            self._uncount(level.message)
        else:
            self.births = level.born = number
        level.message = message
        if not message.topic.startswith(SYSTEM_PREFIX):
            self.count += 1
            self.bytes += message.size + MESSAGE_BYTES
            self._charge(message, 1)

    def remove(self, topic: str) -> bool:
        """Remove the message of a topic; return whether it had one."""
        names = topic.split("/")
        path = [self._root_of(topic)]
        for name in names:
            below = path[-1].child(name)
            if below is None:
                return False
            path.append(below)
        message = path[-1].message
        if message is None:
            return False
        path[-1].message = None
        self._uncount(message)
        for above, name, level in zip(path[-2::-1], names[::-1], path[::-1], strict=False):
            if level.has_children or level.message is not None:
                break
            above.drop(name)
            self.bytes -= LEVEL_BYTES
        return True

    def search(self, topic_filter: str, last: int) -> RetainedSearch:
        """Return a search for what a filter matches, as far as it was there at birth ``last``."""
        return RetainedSearch(self._root_of(topic_filter), topic_filter, last)

    def __iter__(self) -> Iterator[Message]:
        """Yield all messages."""
        levels = chain(_below(self._root), _below(self._reserved))
        return (one.message for one in levels if one.message is not None)

    def _root_of(self, topic: str) -> RetainedLevel:
        return self._reserved if topic.startswith("$") else self._root

    def _uncount(self, message: Message) -> None:
        if not message.topic.startswith(SYSTEM_PREFIX):
            self.count -= 1
            self.bytes -= message.size + MESSAGE_BYTES
            self._charge(message, -1)

    def _charge(self, message: Message, count: int) -> None:
        """Count a message that its user has from now on, or no longer."""
        user_name = _user_of(message)
        messages, held = self._held.pop(user_name, (0, 0))
        if messages + count:
            self._held[user_name] = messages + count, held + count * _bytes_of(message)

    def _missing_levels(self, topic: str) -> int:
        """Return how many levels a topic needs that are not there."""
        names = topic.split("/")
        level = self._root_of(topic)
        for number, name in enumerate(names):
            below = level.child(name)
            if below is None:
                return len(names) - number
            level = below
        return 0


def _user_of(message: Message) -> str | None:
    return None if message.author is None else message.author.user_name


def _bytes_of(message: Message) -> int:
    """Return what a message takes with all levels of its topic, as if it shared none."""
    return message.size + MESSAGE_BYTES + LEVEL_BYTES * (message.topic.count("/") + 1)


def _below(level: RetainedLevel) -> Iterator[RetainedLevel]:
    """Yield all levels below a level."""
    path = [level.children()]
    while path:
        below = next(path[-1], None)
        if below is None:
            path.pop()
            continue
        yield below
        if below.has_children:
            path.append(below.children())


class RetainedWriter:
    """Puts messages into the retained store and takes them out again."""

    __slots__ = ("_state", "_timers")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        # Deadlines by topic: one for each, however often its message changes.
        self._timers: dict[str, Timer] = {}

    def save(self, message: Message) -> None:
        """Keep a retained message; one without payload removes what its topic has."""
        store, journal = self._state.retained, self._state.journal
        if message.payload:
            store.put(message)
            self.watch(message)
            if journal.enabled and not message.topic.startswith(SYSTEM_PREFIX):
                journal.write(RetainedSaved(message))
        else:
            self._remove(message.topic)

    def watch(self, message: Message) -> None:
        """Have the message removed when it expires."""
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
