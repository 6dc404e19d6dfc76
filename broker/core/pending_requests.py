"""Open questions: each has a ticket, and what to do with the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class PendingRequests:
    """Numbers questions; an answer uses its ticket up."""

    __slots__ = ("_last", "_open")

    def __init__(self) -> None:
        self._last = 0
        self._open: dict[int, Callable[..., None]] = {}

    def open(self, answered: Callable[..., None]) -> int:
        """A ticket for a question; ``answered`` is called with the answer."""
        self._last += 1
        self._open[self._last] = answered
        return self._last

    def answer(self, ticket: int, *answer: Any) -> None:
        """Bring an answer; a ticket that is not open is a mistake of the caller."""
        self._open.pop(ticket)(*answer)

    def __len__(self) -> int:
        """The number of open questions."""
        return len(self._open)
