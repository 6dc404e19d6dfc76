"""Work beside the clients: an error that nobody expected is logged, and does not end it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from broker.shell.process import run_with_restarts


def test_what_fails_begins_again_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    async def work() -> None:
        calls.append(len(calls))
        if len(calls) < 3:
            raise ValueError("nobody expected this")

    with caplog.at_level(logging.ERROR):
        asyncio.run(run_with_restarts(work, "the work", restart_seconds=0.0))
    assert calls == [0, 1, 2]
    logged = [record.getMessage() for record in caplog.records]
    assert logged == ["the work failed and is started again"] * 2
    assert "nobody expected this" in caplog.text


def test_what_is_cancelled_ends() -> None:
    async def run() -> None:
        task = asyncio.create_task(run_with_restarts(asyncio.Event().wait, "waiting"))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
