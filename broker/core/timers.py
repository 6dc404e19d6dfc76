"""Deadlines in one heap. Nothing fires by itself: ``run`` is called with the time."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Timer:
    """A deadline that can be called off."""

    __slots__ = ("_owner", "action", "when")

    def __init__(self, when: float, action: Callable[[], None], owner: Timers) -> None:
        self.when = when
        self.action: Callable[[], None] | None = action
        self._owner = owner

    def cancel(self) -> None:
        """Let the deadline pass without effect."""
        if self.action is not None:
            self.action = None
            self._owner.forget_one()


class Timers:
    """Deadlines in order of time, then of their making."""

    __slots__ = ("_cancelled", "_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = 0
        self._cancelled = 0

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        """Have ``action`` called once ``when`` has come."""
        timer = Timer(when, action, self)
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, timer))
        return timer

    def forget_one(self) -> None:
        """Count a deadline that was called off, and clean up once these are the most.

        A session that comes and goes calls one off each time, with a deadline weeks away.
        """
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def next_deadline(self) -> float | None:
        """When ``run`` has something to do, or an earlier time; None: never."""
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        """Call everything that is due; what that adds is due at the next call, if at all."""
        due: list[Timer] = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        for timer in due:
            action = timer.action
            if action is None:
                self._cancelled = max(0, self._cancelled - 1)
            else:
                # Cleared first: a deadline that has passed can no longer be called off.
                timer.action = None
                action()

    def __len__(self) -> int:
        """The number of deadlines kept, those called off included."""
        return len(self._heap)
