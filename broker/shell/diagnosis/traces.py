"""Traces that operators start: to their terminal, or into the log of the broker.

Each has an end in time and in lines. A reader that is too slow loses lines, which are counted; one
that does not read at all cannot keep its trace on. The log gets no payloads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    aclosing,
    contextmanager,
    nullcontext,
)
from typing import Any, Final

from broker.core.broker_core import Core
from broker.core.trace import TraceEvent, Watch
from broker.shell.control_socket import Rows
from broker.shell.diagnosis.questions import TraceError, TraceRequest, read_trace

log = logging.getLogger(__name__)

# Traces at a time, and lines of one that wait to be read.
MOST_TRACES: Final = 8
MOST_WAITING: Final = 1_000
# After so many seconds without an event a row says that the trace goes on: to a terminal that is
# gone it cannot be written, and the trace ends.
ALIVE_SECONDS: Final = 0.5


class Traces:
    """All traces of one broker; all calls come from the event loop."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._count = 0
        self._to_log: set[asyncio.Task[None]] = set()

    async def command(self, request: dict[str, Any]) -> Rows:
        """Yield the events of a trace as rows; one into the log goes on after the answer."""
        asked = read_trace(request, self._core.limits.topic_levels)
        if self._count >= MOST_TRACES:
            raise TraceError(f"{MOST_TRACES} traces are on: wait until one has ended")
        if asked.to_log:
            task = asyncio.create_task(self._write(asked), name="trace")
            self._to_log.add(task)
            task.add_done_callback(self._to_log.discard)
            yield {"done": 0}
            return
        lines = 0
        async with aclosing(self._events(asked)) as events:
            async for event in events:
                if isinstance(event, TraceEvent):
                    lines += 1
                    yield _row(event, with_payload=asked.payloads)
                else:
                    yield event
        yield {"done": lines}

    async def stop(self) -> None:
        """End the traces that write into the log."""
        for task in self._to_log:
            task.cancel()
        await asyncio.gather(*self._to_log, return_exceptions=True)

    async def _write(self, asked: TraceRequest) -> None:
        """Write a trace into the log, at a level that the log has."""
        level = max(logging.INFO, logging.getLogger().level)
        async with aclosing(self._events(asked)) as events:
            async for event in events:
                if isinstance(event, TraceEvent):
                    who = {"client": event.client, "user": event.user}
                    log.log(level, "trace: %s", event.event, extra={**who, **event.fields})
                elif "leftOut" in event:
                    log.log(level, "trace: %d lines are left out", event["leftOut"])

    async def _events(
        self, asked: TraceRequest
    ) -> AsyncGenerator[TraceEvent | dict[str, Any], None]:
        """Yield the events of a watch until its time or its lines are used up."""
        queue = _EventQueue()
        watch = Watch(asked.client, asked.topic, queue.add)
        loop = asyncio.get_running_loop()
        end, lines = loop.time() + asked.seconds, 0
        log.info("a trace of %s starts: %d s", asked.what, asked.seconds)
        on = self._switched_on(watch)
        on.enter_context(_log_lines(asked, queue.add))
        timer = loop.call_later(asked.seconds, on.close)
        try:
            while lines < asked.lines and (left := end - loop.time()) > 0:
                event = await queue.next(min(left, ALIVE_SECONDS))
                if event is None:
                    yield {"alive": True}
                else:
                    lines += 1
                    yield event
            if queue.left_out:
                yield {"leftOut": queue.left_out}
        finally:
            timer.cancel()
            on.close()
            log.info("a trace of %s has ended: %d lines", asked.what, lines)

    def _switched_on(self, watch: Watch) -> ExitStack:
        """Start a watch; return what ends it, once."""
        on = ExitStack()
        self._core.add_watch(watch)
        on.callback(self._core.remove_watch, watch)
        self._count += 1
        on.callback(self._count_one_less)
        return on

    def _count_one_less(self) -> None:
        self._count -= 1


class _EventQueue:
    """Events that wait for their reader."""

    def __init__(self) -> None:
        self._events: deque[TraceEvent] = deque()
        self._came = asyncio.Event()
        self.left_out = 0

    def add(self, event: TraceEvent) -> None:
        """Keep an event, or count it when too many wait."""
        if len(self._events) >= MOST_WAITING:
            self.left_out += 1
            return
        self._events.append(event)
        self._came.set()

    async def next(self, seconds: float) -> TraceEvent | None:
        """Return the next event, None when none comes in time."""
        if not self._events:
            self._came.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._came.wait()
            except TimeoutError:
                return None
        return self._events.popleft()


def _log_lines(
    asked: TraceRequest, sink: Callable[[TraceEvent], None]
) -> AbstractContextManager[None]:
    """Take the lines that the broker logs about the client: they are in the log already."""
    if asked.client is None or asked.to_log:
        return nullcontext()
    return client_lines(asked.client, sink, __name__)


def _row(event: TraceEvent, *, with_payload: bool) -> dict[str, Any]:
    row = {
        "time": round(event.time, 3), "client": event.client, "user": event.user,
        "event": event.event, **event.fields,
    }  # fmt: skip
    if with_payload and event.payload is not None:
        row["payload"] = event.payload.decode("utf-8", "backslashreplace")
    return row


# Lines of the broker with the fields client and user.
_LOGGER: Final = "broker"
_FIELDS: Final = ("from", "reason", "nsids")


class ClientLogHandler(logging.Handler):
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
    tap, floor = ClientLogHandler(client_id, sink, traces), _FromLevel(root.level)
    for handler in root.handlers:
        handler.addFilter(floor)
    logger.addHandler(tap)
    logger.setLevel(min(root.level, logging.INFO))
    try:
        yield
    finally:
        logger.removeHandler(tap)
        if not any(isinstance(one, ClientLogHandler) for one in logger.handlers):
            # As the root logger, which has the level of the log.
            logger.setLevel(logging.NOTSET)
        for handler in root.handlers:
            handler.removeFilter(floor)
