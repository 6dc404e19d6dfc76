"""Retained messages that a new subscription is still to be given."""

from __future__ import annotations

from typing import Final

import numpy as np

from broker.core.message import Message
from broker.core.retained.retained_messages import RetainedStore
from broker.core.retained.retained_search import RetainedLevel, RetainedSearch
from broker.core.subscribe.subscription import Subscription
from broker.core.subscribe.topic_tree import LEVEL_BYTES
from spatial_udfs.entity_table import Int64s

# Levels of topics that a search looks at in one go, with a message or without: a fraction of a
# millisecond.
SEARCHED_AT_ONCE: Final = 500
# What a backlog takes in memory, with a subscription that may have ended since.
BACKLOG_BYTES: Final = 700


class RetainedBacklog:
    """Retained messages that one subscription is owed.

    They are searched for piece by piece, and taken when their turn comes: so a long backlog
    stops nobody and keeps nothing alive.
    """

    __slots__ = ("_found", "_last", "_members", "_search", "_taken", "is_held", "subscription")

    def __init__(self, subscription: Subscription, last: int, members: Int64s | None) -> None:
        """``last`` is the last birth that counts; with ``members``, ascending, only these do."""
        self.subscription = subscription
        self._last = last
        self._members = members
        # Begun when its turn comes.
        self._search: RetainedSearch | None = None
        # Levels with a message, the next one last.
        self._found: list[RetainedLevel] = []
        self._taken: RetainedLevel | None = None
        # Whether it waits until it is decided if its next message may be given out.
        self.is_held = False

    @property
    def bytes(self) -> int:
        """What it takes in memory before it is begun."""
        members = 0 if self._members is None else self._members.nbytes
        return BACKLOG_BYTES + len(self.subscription.terms.topic_filter) + members

    @property
    def search_bytes(self) -> int:
        """What the search takes beyond that: it may hold levels that are gone."""
        depth = 0 if self._search is None else self._search.depth
        return LEVEL_BYTES * (depth + len(self._found))

    def next_message(self) -> Message | None:
        """Take the next message that was found and is still there; None: search on."""
        while self._found and self.subscription.active:
            self._taken = self._found.pop()
            if self._taken.message is not None:
                return self._taken.message
        return None

    def search_on(self, store: RetainedStore) -> int:
        """Search some more; the number of levels that were looked at, 0 when all was seen."""
        if not self.subscription.active:
            return 0
        if self._search is None:
            self._search = store.search(self.subscription.terms.topic_filter, self._last)
        levels, left = self._search.go_on(SEARCHED_AT_ONCE)
        self._found = self._owed(levels)[::-1]
        return SEARCHED_AT_ONCE - left

    def hold(self) -> None:
        """Wait with the message that was taken and all behind it."""
        if self._taken is not None:
            self._found.append(self._taken)
        self.is_held = True

    def _owed(self, levels: list[RetainedLevel]) -> list[RetainedLevel]:
        if self._members is None or not levels:
            return levels
        if not len(self._members):
            return []
        about = [
            (level, peid)
            for level in levels
            if level.message is not None and (peid := level.message.peid) is not None
        ]
        peids = np.array([peid for _, peid in about], np.int64)
        places = np.searchsorted(self._members, peids)
        inside = self._members.take(places, mode="clip") == peids
        return [level for (level, _), is_in in zip(about, inside.tolist(), strict=True) if is_in]
