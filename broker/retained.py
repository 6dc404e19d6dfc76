"""Retained messages in a tree of topics, bounded by count and bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np

from broker.limits import BrokerLimits
from broker.message import Message
from broker.subscription import Subscription
from broker.topic_levels import LEVEL_BYTES, Level
from broker.topics import SYSTEM_PREFIX
from spatial_udfs.entity_table import Int64s

# Levels of topics that a search looks at in one go, with a message or without: a fraction of a
# millisecond.
SEARCHED_AT_ONCE: Final = 500
# The objects of a message without their content, and its journal record, as measured.
MESSAGE_BYTES: Final = 400


class _Level(Level):
    """One level of some topics; ``message`` belongs to the topic that ends here.

    ``born`` is the number of the first message since there is one.
    """

    __slots__ = ("born", "message")

    def __init__(self) -> None:
        super().__init__()
        self.message: Message | None = None
        self.born = 0


class RetainedStore:
    """The last retained message of each topic. The broker's own $SYS values are not counted."""

    __slots__ = ("_births", "_held", "_limits", "_root", "bytes", "count")

    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._root = _Level()
        self._births = 0
        self.count = 0
        self.bytes = 0
        # By user name: messages, and their bytes with all levels of their topics.
        self._held: dict[str | None, tuple[int, int]] = {}

    def find(self, topic: str) -> Message | None:
        """The retained message of a topic, expired or not."""
        level: _Level | None = self._root
        for name in topic.split("/"):
            level = level.child(name) if level is not None else None
        return level.message if level is not None else None

    def has_room_for(self, message: Message, user_name: str | None) -> bool:
        """Whether a user's message can be kept in the place of what its topic has now.

        As of all that is shared, a user may hold as much as is free for everybody else.
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
        level = self._root
        for name in message.topic.split("/"):
            below = level.child(name)
            if below is None:
                below = level.make(name)
                self.bytes += LEVEL_BYTES
            level = below
        if level.message is not None:
            self._uncount(level.message)
        else:
            self._births += 1
            level.born = self._births
        level.message = message
        if not message.topic.startswith(SYSTEM_PREFIX):
            self.count += 1
            self.bytes += message.size + MESSAGE_BYTES
            self._charge(message, 1)

    def remove(self, topic: str) -> bool:
        """Take out what a topic has; whether it had something."""
        names = topic.split("/")
        path = [self._root]
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

    def search(self, topic_filter: str) -> Iterator[Message | None]:
        """The messages of all topics that a filter matches, in no particular order.

        Each level that is looked at is a step; None: it has no message that matches. The search
        may be left alone and gone on with later: it finds what was there when it was begun and
        is there still.
        """
        return _born_until(self._births, _matching(self._root, topic_filter.split("/")))

    def __iter__(self) -> Iterator[Message]:
        """All messages."""
        return (one.message for one in _below(self._root) if one.message is not None)

    def _uncount(self, message: Message) -> None:
        if not message.topic.startswith(SYSTEM_PREFIX):
            self.count -= 1
            self.bytes -= message.size + MESSAGE_BYTES
            self._charge(message, -1)

    def _charge(self, message: Message, count: int) -> None:
        """Note that a message of its user came, or went."""
        user_name = _user_of(message)
        messages, held = self._held.pop(user_name, (0, 0))
        if messages + count:
            self._held[user_name] = messages + count, held + count * _bytes_of(message)

    def _missing_levels(self, topic: str) -> int:
        """Return how many levels a topic needs that are not there."""
        names = topic.split("/")
        level = self._root
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


def _born_until(last: int, levels: Iterator[_Level | None]) -> Iterator[Message | None]:
    return (None if level is None or level.born > last else level.message for level in levels)


def _matching(root: _Level, names: list[str]) -> Iterator[_Level | None]:
    """The levels where topics end that a filter matches; None for each level on the way.

    Children are copied before they are gone over, because they may change meanwhile.
    """
    # What is left to see of each level on the way down; its place is the filter's level.
    path: list[Iterator[_Level]] = [iter((root,))]
    while path:
        level = next(path[-1], None)
        if level is None:
            path.pop()
            continue
        depth = len(path) - 1
        if depth == len(names):
            yield level
            continue
        yield None
        name = names[depth]
        if name == "#":
            yield from _below(level, is_root=depth == 0)
        elif name == "+":
            path.append(_children(level, is_root=depth == 0))
        else:
            below = level.child(name)
            path.append(iter(() if below is None else (below,)))


def _below(level: _Level, *, is_root: bool = False) -> Iterator[_Level]:
    """A level and all below it."""
    yield level
    path = [_children(level, is_root=is_root)]
    while path:
        below = next(path[-1], None)
        if below is None:
            path.pop()
            continue
        yield below
        if below.has_children:
            path.append(below.children())


def _children(level: _Level, *, is_root: bool) -> Iterator[_Level]:
    """The next levels; a wildcard at the start of a filter does not reach ``$…``."""
    if not is_root:
        return level.children()
    return (below for name, below in level.named_children() if not name.startswith("$"))


class RetainedBacklog:
    """Retained messages a new subscription is still to be given, by topic.

    They are searched for piece by piece, and fetched when their turn comes: so a long backlog
    stops nobody and keeps nothing alive.
    """

    __slots__ = ("_found", "_members", "_search", "is_held", "subscription")

    def __init__(
        self, subscription: Subscription, search: Iterator[Message | None], members: Int64s | None
    ) -> None:
        """With ``members``, ascending, only messages about these are owed."""
        self.subscription = subscription
        self._search = search
        self._members = members
        # Topics, the next one last.
        self._found: list[str] = []
        # Whether it waits until it is decided if its next message may be given out.
        self.is_held = False

    def next_message(self, store: RetainedStore) -> Message | None:
        """The next message that was found and is still there; None: search on."""
        while self._found and self.subscription.active:
            message = store.find(self._found.pop())
            if message is not None:
                return message
        return None

    def search_on(self) -> bool:
        """Search some more; False when all was seen."""
        if not self.subscription.active:
            return False
        seen = list(islice(self._search, SEARCHED_AT_ONCE))
        self._found = self._owed([one for one in seen if one is not None])[::-1]
        return bool(seen)

    def hold(self, message: Message) -> None:
        """Wait with this message and all behind it."""
        self._found.append(message.topic)
        self.is_held = True

    def _owed(self, messages: list[Message]) -> list[str]:
        if self._members is None:
            return [message.topic for message in messages]
        topics = [message.topic for message in messages if message.peid is not None]
        peids = np.array([one.peid for one in messages if one.peid is not None], np.int64)
        if not len(self._members):
            return []
        places = np.searchsorted(self._members, peids)
        inside = self._members.take(places, mode="clip") == peids
        return [topic for topic, is_in in zip(topics, inside.tolist(), strict=True) if is_in]
