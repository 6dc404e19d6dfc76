"""A lock that threads get in the order in which they asked for it.

A plain lock often goes back to the thread that has just released it. Then one long computation in
many steps would keep all others out until its end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from schemas.errors import DeadlineError
from spatial_udfs.resolution_limits import ResolutionLimits


class Turns:
    """One thread at a time, first come, first served."""

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
            raise DeadlineError("the resolver was busy for all of the time allowed")
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
