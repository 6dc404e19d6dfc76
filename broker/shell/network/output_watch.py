"""Watches how much output clients leave unread, and sends away who leaves too much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Refusal
from broker.shell.network.output_budget import LOOK_SECONDS, OutputBudget
from broker.shell.unread_answers import UnreadAnswers

if TYPE_CHECKING:
    from broker.core.broker_core import Core
    from broker.core.sessions.connection import Connection


class OutputWatch:
    """Looks at all connections when it is due, and again while something is unread."""

    def __init__(
        self,
        core: Core,
        connections: Collection[Connection],
        budget: OutputBudget,
        answers: UnreadAnswers,
        soon: Callable[[], None],
    ) -> None:
        self._core = core
        self._connections = connections
        self._budget = budget
        self._answers = answers
        self._soon = soon
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Count what clients have not read; close who holds the most when it is too much."""
        counters = self._core.counters
        now = self._loop.time()
        for connection in self._budget.look(self._connections, counters.bytes_sent, now):
            counters.refusals[Refusal.OUTPUT_BYTES] += 1
            # It would not read a DISCONNECT either. Closed at once, so that memory is free.
            connection.peer.abort()
            text = "too much was written that clients have not read"
            self._core.disconnect(connection, ReasonCode.QUOTA_EXCEEDED, text)
        self._answers.limit = self._budget.mark
        if self._budget.bytes and self._timer is None:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look_again)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_again(self) -> None:
        self._timer = None
        self.look()
        self._soon()
