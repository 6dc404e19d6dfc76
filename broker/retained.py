"""Retained messages in a tree of topics, bounded by count and bytes."""

from __future__ import annotations

from collections.abc import Iterator

from broker.limits import BrokerLimits
from broker.message import Message
from broker.subscription import Subscription
from broker.topics import SYSTEM_PREFIX


class _Level:
    """One level of some topics; ``message`` belongs to the topic that ends here."""

    __slots__ = ("children", "message")

    def __init__(self) -> None:
        self.children: dict[str, _Level] = {}
        self.message: Message | None = None


class RetainedStore:
    """The last retained message of each topic. The broker's own $SYS values are not counted."""

    __slots__ = ("_limits", "_root", "bytes", "count")

    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._root = _Level()
        self.count = 0
        self.bytes = 0

    def find(self, topic: str) -> Message | None:
        """The retained message of a topic, expired or not."""
        level: _Level | None = self._root
        for name in topic.split("/"):
            level = level.children.get(name) if level is not None else None
        return level.message if level is not None else None

    def has_room_for(self, message: Message) -> bool:
        """Whether the message can be kept in the place of what its topic has now."""
        before = self.find(message.topic)
        count = self.count + (before is None)
        size = self.bytes + message.size - (before.size if before is not None else 0)
        return count <= self._limits.retained_messages and size <= self._limits.retained_bytes

    def put(self, message: Message) -> None:
        """Keep a message instead of what its topic has now."""
        level = self._root
        for name in message.topic.split("/"):
            below = level.children.get(name)
            if below is None:
                below = level.children[name] = _Level()
            level = below
        if level.message is not None:
            self._uncount(level.message)
        level.message = message
        if not message.topic.startswith(SYSTEM_PREFIX):
            self.count += 1
            self.bytes += message.size

    def remove(self, topic: str) -> bool:
        """Take out what a topic has; whether it had something."""
        names = topic.split("/")
        path = [self._root]
        for name in names:
            below = path[-1].children.get(name)
            if below is None:
                return False
            path.append(below)
        message = path[-1].message
        if message is None:
            return False
        path[-1].message = None
        self._uncount(message)
        for above, name, level in zip(path[-2::-1], names[::-1], path[::-1], strict=False):
            if level.children or level.message is not None:
                break
            del above.children[name]
        return True

    def match(self, topic_filter: str) -> Iterator[Message]:
        """The messages of all topics that a filter matches, in no particular order."""
        names = topic_filter.split("/")
        # Levels with the number of filter levels that led there.
        stack = [(self._root, 0)]
        while stack:
            level, depth = stack.pop()
            if depth == len(names):
                if level.message is not None:
                    yield level.message
                continue
            name = names[depth]
            if name == "#":
                yield from _everything(level, skip_reserved=depth == 0)
            elif name == "+":
                stack += [
                    (below, depth + 1)
                    for key, below in level.children.items()
                    if depth or not key.startswith("$")
                ]
            elif name in level.children:
                stack.append((level.children[name], depth + 1))

    def __iter__(self) -> Iterator[Message]:
        """All messages."""
        return _everything(self._root, skip_reserved=False)

    def _uncount(self, message: Message) -> None:
        if not message.topic.startswith(SYSTEM_PREFIX):
            self.count -= 1
            self.bytes -= message.size


def _everything(level: _Level, *, skip_reserved: bool) -> Iterator[Message]:
    """The messages at and below a level; a wildcard at the start does not reach ``$…``."""
    if level.message is not None:
        yield level.message
    stack = [
        below
        for name, below in level.children.items()
        if not (skip_reserved and name.startswith("$"))
    ]
    while stack:
        level = stack.pop()
        if level.message is not None:
            yield level.message
        stack.extend(level.children.values())


class RetainedBacklog:
    """Retained messages a new subscription is still to be given, by topic.

    The messages are fetched when their turn comes, so a long backlog keeps nothing alive.
    """

    __slots__ = ("_topics", "is_held", "subscription")

    def __init__(self, subscription: Subscription, topics: list[str]) -> None:
        self.subscription = subscription
        self._topics = topics[::-1]
        # Whether it waits until it is decided if its next message may be given out.
        self.is_held = False

    def next_message(self, store: RetainedStore) -> Message | None:
        """The next message that is still there; None when all are done."""
        while self._topics and self.subscription.active:
            message = store.find(self._topics.pop())
            if message is not None:
                return message
        return None

    def hold(self, message: Message) -> None:
        """Wait with this message and all behind it."""
        self._topics.append(message.topic)
        self.is_held = True
