"""What a client held under an nsid at which time, as far as its packets and answers can tell."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from tests.oracle.definition import matches
from tests.soak.records import PLAIN, Change, Sent

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
