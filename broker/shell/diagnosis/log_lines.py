"""Gives a trace the lines that the broker logs about its client, whatever the level of the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from broker.core.trace import TraceEvent

# Lines of the broker with the fields client and user.
_LOGGER: Final = "broker"
_FIELDS: Final = ("from", "reason", "nsids")


class ClientLines(logging.Handler):
    """Gives ``sink`` each line about a client id, except those that traces write themselves."""

    def __init__(self, client_id: str, sink: Callable[[TraceEvent], None], traces: str) -> None:
        """``traces`` is the name of the logger by which traces write."""
        super().__init__(logging.INFO)
        self._client_id = client_id
        self._sink = sink
        self._traces = traces

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line of the log."""
        if record.name == self._traces or getattr(record, "client", None) != self._client_id:
            return
        given = vars(record)
        fields: dict[str, Any] = {name: given[name] for name in _FIELDS if name in given}
        user = getattr(record, "user", None)
        self._sink(TraceEvent(record.created, self._client_id, user, record.getMessage(), fields))


class _FromLevel(logging.Filter):
    """Keeps lines below the level of the log out of it."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is to be written."""
        return record.levelno >= self._level


@contextmanager
def client_lines(client_id: str, sink: Callable[[TraceEvent], None], traces: str) -> Iterator[None]:
    """Give ``sink`` the lines about a client; what the broker writes stays the same."""
    logger, root = logging.getLogger(_LOGGER), logging.getLogger()
    tap, floor = ClientLines(client_id, sink, traces), _FromLevel(root.level)
    for handler in root.handlers:
        handler.addFilter(floor)
    logger.addHandler(tap)
    logger.setLevel(min(root.level, logging.INFO))
    try:
        yield
    finally:
        logger.removeHandler(tap)
        if not any(isinstance(one, ClientLines) for one in logger.handlers):
            # As the root logger, which has the level of the log.
            logger.setLevel(logging.NOTSET)
        for handler in root.handlers:
            handler.removeFilter(floor)
