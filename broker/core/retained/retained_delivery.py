"""Searches retained messages for new subscriptions, and sends them, a part at a time.

A search can be continued after changes. It remembers one level of the tree and one number for each
level of depth, however many topics there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Drop
from broker.core.message import Message
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.subscribe.named_subscriptions import matched_filter
from broker.core.subscribe.subscription import Subscription
from broker.core.subscribe.topic_tree import LEVEL_BYTES, RetainedLevel
from broker.core.verdicts import Verdict
from spatial_udfs.entity_table import Int64s

if TYPE_CHECKING:
    from broker.core.core_state import CoreState
    from broker.core.publish.message_delivery import MessageDelivery
    from broker.core.retained.retained_messages import RetainedStore

# Bytes of retained messages written at once, before other clients get their turn.
WRITTEN_AT_ONCE: Final = 65_536
# To begin or end a search, or to look at a level of topics, takes as long as writing so many bytes.
SEARCH_COST: Final = 512
LEVEL_COST: Final = 16
# Levels of topics that a search looks at in one step, with a message or without: a fraction of a
# millisecond.
SEARCHED_AT_ONCE: Final = 500
# What a backlog takes in memory, with a subscription that may have ended since.
BACKLOG_BYTES: Final = 700


class RetainedDelivery:
    """Sends the backlogs of connections."""

    __slots__ = ("_message_delivery", "_state")

    def __init__(self, state: CoreState, message_delivery: MessageDelivery) -> None:
        self._state = state
        self._message_delivery = message_delivery

    def send_next(self, session: Session, connection: Connection) -> None:
        """Send the next part of the retained messages, so that no other client waits long."""
        if connection.backlog:
            self._send_next(session, connection)
            # What a search holds while it waits counts; a client that holds too much is closed at
            # its next read.
            self._state.input_budget.note(connection, connection.input_bytes)

    def _send_next(self, session: Session, connection: Connection) -> None:
        backlog = connection.backlog
        budget = WRITTEN_AT_ONCE
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
                    self._state.count_drop(session, message, Drop.NOT_ALLOWED)
                else:
                    self._message_delivery.deliver(session, message, (subscription,), retain=True)

    def _author_verdict(
        self, receiver: Session, message: Message, backlog: RetainedBacklog
    ) -> Verdict | None:
        """Return whether the author may still publish the message; None: the backlog waits."""
        if message.author is None:
            return ReasonCode.SUCCESS

        def decided(_verdict: Verdict) -> None:
            backlog.is_held = False
            self._message_delivery.drain(receiver)

        verdict = self._state.access.ask_author(message.author, message.topic, decided)
        if verdict is None:
            backlog.wait()
        return verdict


class RetainedBacklog:
    """Retained messages that are to be sent for one subscription.

    They are searched for in parts, and taken when their turn comes: so a long backlog delays
    nobody and keeps no message in memory.
    """

    __slots__ = ("_found", "_last", "_members", "_search", "_taken", "is_held", "subscription")

    def __init__(self, subscription: Subscription, last: int, members: Int64s | None) -> None:
        """Search up to the birth ``last``; with ``members``, ascending, for these alone."""
        self.subscription = subscription
        self._last = last
        self._members = members
        # Begun when its turn comes.
        self._search: RetainedSearch | None = None
        # Levels with a message, the next one last.
        self._found: list[RetainedLevel] = []
        self._taken: RetainedLevel | None = None
        # Whether it waits until it is decided if its next message may be sent.
        self.is_held = False

    @property
    def bytes(self) -> int:
        """The bytes that it takes in memory before it is begun."""
        members = 0 if self._members is None else self._members.nbytes
        return BACKLOG_BYTES + len(self.subscription.terms.topic_filter) + members

    @property
    def search_bytes(self) -> int:
        """The bytes that the search takes beyond that: it may hold levels that were removed."""
        depth = 0 if self._search is None else self._search.depth
        return LEVEL_BYTES * (depth + len(self._found))

    def next_message(self) -> Message | None:
        """Return the next message that was found and is still there; None: search on."""
        while self._found and self.subscription.active:
            self._taken = self._found.pop()
            if self._taken.message is not None:
                return self._taken.message
        return None

    def search_on(self, store: RetainedStore) -> int:
        """Search on; return the number of levels that were looked at, 0 when all was seen."""
        if not self.subscription.active:
            return 0
        if self._search is None:
            self._search = store.search(
                matched_filter(self.subscription.terms.topic_filter), self._last
            )
        levels, left = self._search.next_levels(SEARCHED_AT_ONCE)
        self._found = self._wanted(levels)[::-1]
        return SEARCHED_AT_ONCE - left

    def wait(self) -> None:
        """Wait with the message that was taken and all behind it."""
        if self._taken is not None:
            self._found.append(self._taken)
        self.is_held = True

    def _wanted(self, levels: list[RetainedLevel]) -> list[RetainedLevel]:
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


class RetainedSearch:
    """Finds the levels of all topics that a filter matches, in no particular order.

    What was there when it was begun and is there still is found, and nothing that came later.
    """

    __slots__ = ("_filter", "_last", "_levels", "_numbers")

    def __init__(self, root: RetainedLevel, topic_filter: str, last: int) -> None:
        """``last`` is the number of the last message that is to be found."""
        self._filter = topic_filter
        self._last = last
        # The path to the present level, and which child of each was looked at last.
        self._levels = [root]
        self._numbers = [0]

    @property
    def depth(self) -> int:
        """The number of levels that it remembers; 0 when all was seen."""
        return len(self._levels)

    def next_levels(self, steps: int) -> tuple[list[RetainedLevel], int]:
        """Look at so many levels; return those with a message, and the steps not needed."""
        names = self._filter.split("/")
        levels, numbers, last = self._levels, self._numbers, self._last
        # From one depth on every level matches, or only those of another depth do.
        depth = len(names)
        open_from = depth - 1 if names[-1] == "#" else depth + 1
        # The children that are left of levels with many, as far as this call has come to them.
        rests: list[Iterator[RetainedLevel | int] | None] = [None] * len(levels)
        found: list[RetainedLevel] = []
        while levels and steps:
            at = len(levels) - 1
            if at < open_from and names[at] != "+":
                below = _unseen(levels[-1].child(names[at]), numbers[-1])
            elif levels[-1].many is None:
                below = _unseen(levels[-1].only, numbers[-1])
            else:
                rest = rests[-1] = rests[-1] or levels[-1].made_after(numbers[-1], steps)
                below = next(rest, None)
            if below is None:
                del levels[-1], numbers[-1], rests[-1]
                continue
            steps -= 1
            if isinstance(below, int):
                numbers[-1] = below
                continue
            numbers[-1] = below.made
            is_match = at + 1 == depth or at + 1 >= open_from
            if is_match and below.message is not None and below.born <= last:
                found.append(below)
            if below.has_children and (at + 1 < depth or at + 1 >= open_from):
                levels.append(below)
                numbers.append(0)
                rests.append(None)
        return found, steps


def _unseen(child: RetainedLevel | None, number: int) -> RetainedLevel | int | None:
    """Return a child if it was made after a number."""
    return None if child is None or child.made <= number else child
