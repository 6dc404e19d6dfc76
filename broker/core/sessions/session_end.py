"""Takes the subscriptions of sessions that have ended out of force, some at a time."""

from __future__ import annotations

from collections import deque
from typing import Final

from broker.core.core_state import CoreState
from broker.core.requests import Forget
from broker.core.sessions.session import Session

# Subscriptions taken out at one go: one or two milliseconds.
ENDED_AT_ONCE: Final = 250


class EndedSessions:
    """Sessions that have ended and still have subscriptions; nothing is delivered for these."""

    __slots__ = ("_sessions", "_state")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._sessions: deque[Session] = deque()

    def add(self, session: Session) -> None:
        """Take out what a session holds: the first at once, and then the rest.

        Its neighborhoods are unregistered at once. Were that done later, a client that comes
        back and makes the same ones again could lose them.
        """
        slots, spatial = self._state.slots, []
        if session.neighborhoods:
            spatial = [one for one in session.subscriptions.values() if one.terms.nsid is not None]
        for subscription in spatial:
            slots.vacate(subscription)
        numbers = tuple(one.terms.sub_id for one in spatial if one.terms.sub_id is not None)
        if numbers:
            self._state.outbox.requests.append(Forget(numbers))
        if session.subscriptions:
            self._sessions.append(session)
            if len(self._sessions) == 1:
                self._take_out_some()

    def _take_out_some(self) -> None:
        left = ENDED_AT_ONCE
        while self._sessions and left:
            held = self._sessions[0].subscriptions
            while held and left:
                self._state.index.leave(held.popitem()[1])
                left -= 1
            if not held:
                self._sessions.popleft()
        if self._sessions:
            self._state.timers.at(self._state.clock(), self._take_out_some)
