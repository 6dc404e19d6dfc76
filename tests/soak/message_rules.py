"""Rules for messages: what a client held under an nsid at which time, and the order of copies.

Copies of a message come in the order in which it was sent, and again only where QoS 1 allows it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.oracle.definition import matches
from tests.soak.records import PLAIN, Change, Received, Records, Sent

FOREVER = float("inf")


@dataclass(slots=True)
class State:
    """One subscription, or none; possible from the packet that asks to the answer that ends it."""

    topic_filter: str
    neighborhood: int | None
    possible_from: float
    possible_until: float = FOREVER

    @property
    def is_plain(self) -> bool:
        """Whether it takes every message of its filter."""
        return self.neighborhood == PLAIN

    def matches(self, topic: str) -> bool:
        """Whether it is a subscription, and for this topic."""
        return self.neighborhood is not None and _fits(self.topic_filter, topic)


class Holding:
    """The states of one client's nsid, one after the other."""

    def __init__(self, nsid: int) -> None:
        self.nsid = nsid
        self._states = [State("", None, -FOREVER)]
        self._starts = [-FOREVER]

    def add(self, change: Change) -> None:
        """The next change, in the order in which they were sent."""
        if change.is_refused and change.attempts == 1:
            return
        state = State(change.topic_filter, change.neighborhood, change.sent)
        for before in self._states:
            ends = change.answered is not None and not change.is_refused
            if ends and before.possible_until == FOREVER:
                before.possible_until = change.answered
        self._states.append(state)
        self._starts.append(change.sent)

    def possible(self, start: float, end: float) -> list[State]:
        """The states that may have been in force between two times."""
        found = []
        for at in range(bisect_right(self._starts, end) - 1, -1, -1):
            state = self._states[at]
            if state.possible_until >= start:
                found.append(state)
            elif len(found) > 0:
                break
        return found

    def may_still_deliver(self, message: Sent, at: float) -> bool:
        """Whether a subscription that the message may have matched was not over at a time."""
        end = message.acknowledged or FOREVER
        return any(
            state.possible_until >= at and state.matches(message.topic)
            for state in self.possible(message.sends[0], end)
        )


def holdings_of(changes: Iterable[Change]) -> dict[tuple[str, int], Holding]:
    """By client and nsid."""
    found: dict[tuple[str, int], Holding] = {}
    for change in sorted(changes, key=lambda one: one.sent):
        key = (change.client, change.nsid)
        if key not in found:
            found[key] = Holding(change.nsid)
        found[key].add(change)
    return found


_known: dict[tuple[str, str], bool] = {}


def _fits(topic_filter: str, topic: str) -> bool:
    key = (topic_filter, topic)
    if key not in _known:
        _known[key] = matches(topic_filter, topic)
    return _known[key]


def copy_problems(records: Records) -> Iterator[tuple[str, str]]:
    """Everything that is wrong with order and repetitions: kind and words."""
    by_client: dict[str, list[Received]] = defaultdict(list)
    for copy in records.received:
        by_client[copy.client].append(copy)
    for copies in by_client.values():
        copies.sort(key=lambda one: one.at)
        yield from _order(records, copies)
        yield from _repetitions(records, copies)


def _order(records: Records, copies: list[Received]) -> Iterator[tuple[str, str]]:
    """The first copies of one publisher's messages to a topic come as they were sent."""
    last: dict[tuple[str, str], int] = {}
    seen: set[str] = set()
    for copy in copies:
        message = records.sent.get(copy.name)
        if message is None or copy.name in seen:
            continue
        seen.add(copy.name)
        stream = (message.publisher, message.topic)
        if message.number < last.get(stream, -1):
            yield "order", f"{copy} after number {last[stream]}"
        last[stream] = max(message.number, last.get(stream, -1))


def _repetitions(records: Records, copies: list[Received]) -> Iterator[tuple[str, str]]:
    """Again: on a later connection, marked as such; or because the publisher sent it again."""
    before: dict[str, Received] = {}
    spare: dict[str, int] = {}
    for copy in copies:
        message = records.sent.get(copy.name)
        if message is None:
            continue
        earlier = before.get(copy.name)
        before[copy.name] = copy
        if earlier is None:
            spare[copy.name] = len(message.sends) - 1
        elif copy.connection > earlier.connection:
            killed = records.during("broker killed", earlier.at, copy.at)
            if not copy.is_repeated and not killed and not spare[copy.name]:
                yield "unmarked", f"{copy} came before as {earlier}"
        elif spare[copy.name]:
            spare[copy.name] -= 1
        else:
            yield "twice", f"{copy} came before as {earlier}"
