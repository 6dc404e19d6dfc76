"""A trace whose reader does not read."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from broker.shell.diagnosis.traces import MOST_TRACES, Traces
from tests.broker_core import encode
from tests.broker_core.harness import Harness


def test_traces_end_in_time_whoever_does_not_read_them() -> None:
    harness = Harness()
    writer = harness.connect("w")

    async def scenario() -> None:
        traces = Traces(harness.core)
        unread = [
            traces.command({"topic": "#", "seconds": 1, "lines": 9}) for _ in range(MOST_TRACES)
        ]
        for rows in unread:
            # One row is read, and no other.
            assert await anext(rows) == {"alive": True}
            if rows is unread[0]:
                assert harness.core._state.trace.is_on
        async with asyncio.timeout(60):
            while harness.core._state.trace.is_on:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        writer.send(encode.publish("t"))
        # None of them counts any more, and each can be read to its end.
        async with aclosing(traces.command({"topic": "#", "seconds": 1, "lines": 1})) as another:
            assert await anext(another) == {"alive": True}
        for rows in unread:
            assert [row async for row in rows] == [{"done": 0}]

    asyncio.run(scenario())
