"""What one resolution may cost, and how resolutions take turns.

Callers must not be held up by a single request.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from schemas.errors import DeadlineError, ResolverBusyError, TooManyMembersError

# Gives the matrix of two geometries within some seconds, or raises DeadlineError.
Relate: TypeAlias = Callable[[Any, Any, float], str]


@dataclass(frozen=True, slots=True)
class ResolutionLimits:
    """Upper limits; None means none. They are checked between steps of bounded size.

    ``max_members`` counts the members of all stages, visible or not: that is what is computed
    and kept. ``deadline`` is a point of ``time.monotonic()``, so that waiting counts too.
    """

    deadline: float | None = None
    max_members: int | None = None
    # For a pair that may take longer than a step. None: it is related like any other.
    relate_apart: Relate | None = None

    @classmethod
    def within(
        cls,
        seconds: float,
        max_members: int | None = None,
        relate_apart: Relate | None = None,
    ) -> ResolutionLimits:
        """Return limits whose clock starts now."""
        return cls(time.monotonic() + seconds, max_members, relate_apart)

    def seconds_left(self) -> float:
        """Return the time until the deadline, or -1 for ever, as a lock's timeout takes it."""
        return -1 if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def check_time(self) -> None:
        """Raise DeadlineError when the time is up."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise DeadlineError("the neighborhood could not be resolved in the time allowed")

    def check_members(self, count: int) -> None:
        """Raise TooManyMembersError when there are more than allowed."""
        if self.max_members is not None and count > self.max_members:
            raise TooManyMembersError(
                f"the neighborhood has more members than the {self.max_members} allowed"
            )


UNLIMITED = ResolutionLimits()


class Turns:
    """A lock that threads get in the order in which they asked for it.

    A plain lock often goes back to the thread that has just released it. Then one long computation
    in many steps would keep all others out until its end.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._is_taken = False
        # One closed gate for each thread that waits.
        self._gates: deque[threading.Lock] = deque()

    @property
    def waiting(self) -> int:
        """The number of threads that wait."""
        return len(self._gates)

    @contextmanager
    def turn(self, limits: ResolutionLimits) -> Iterator[None]:
        """Wait for a turn and hold it; DeadlineError when the time is up before it comes."""
        if not self._take(limits.seconds_left()):
            raise ResolverBusyError("the resolver was busy for all of the time allowed, try later")
        try:
            yield
        finally:
            self._give()

    def _take(self, seconds: float) -> bool:
        with self._guard:
            if not self._is_taken:
                self._is_taken = True
                return True
            gate = threading.Lock()
            gate.acquire()
            self._gates.append(gate)
        if gate.acquire(timeout=seconds):
            return True
        with self._guard:
            if gate in self._gates:
                self._gates.remove(gate)
                return False
        # The turn came at the last moment.
        return True

    def _give(self) -> None:
        with self._guard:
            if self._gates:
                self._gates.popleft().release()
            else:
                self._is_taken = False
