"""Redis stopped, killed or full: the journal goes on in memory and stores the rest later."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from redis import Redis

from broker.ports import JournalLimits, JournalState
from tests.scenes.broker.journals import NOTHING_IS_LOST, act, assert_stored, opened, until
from tests.servers.redis_server import running_redis
from tests.strategies.journal import RandomCore


def test_a_short_break_is_waited_for(tmp_path: Path) -> None:
    """Acknowledgements wait, nothing is promised that is not stored."""

    async def run() -> None:
        core = RandomCore(1)
        limits = JournalLimits(answer_seconds=0.5, patience_seconds=60, lease_seconds=2.0)
        with running_redis(tmp_path, *NOTHING_IS_LOST) as server:
            async with opened(server, core, limits) as journal:
                await act(core, journal)
                server.kill()
                core.act(30)
                saving = asyncio.create_task(journal.save(core.take()))
                await asyncio.sleep(0.3)
                assert not saving.done()
                await asyncio.to_thread(server.restart)
                await saving
                assert journal.figures.not_durable_records == 0
                assert journal.figures.fresh_editions == 0
            await assert_stored(server, core)

    asyncio.run(run())


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_long_break_goes_on_in_memory_and_is_made_good(tmp_path: Path, how: str) -> None:
    async def run() -> None:
        core = RandomCore(2)
        with running_redis(tmp_path, *NOTHING_IS_LOST) as server:
            async with opened(server, core) as journal:
                await act(core, journal)
                if how == "killed":
                    server.kill()
                else:
                    server.process.send_signal(signal.SIGSTOP)
                for _ in range(20):
                    await act(core, journal)
                assert journal.state is JournalState.AWAY
                assert journal.figures.not_durable_records > 0
                if how == "killed":
                    await asyncio.to_thread(server.restart)
                else:
                    server.process.send_signal(signal.SIGCONT)
                await until(lambda: journal.state is JournalState.PRESENT)
                assert journal.figures.fresh_editions == 0, "few changes are stored as they are"
                counted = journal.figures.not_durable_records
                await act(core, journal)
                assert journal.figures.not_durable_records == counted
            await assert_stored(server, core)

    asyncio.run(run())


def test_the_event_loop_goes_on_while_redis_is_stopped(tmp_path: Path) -> None:
    """Nothing but the save waits, and that only for its patience."""

    async def run() -> None:
        core = RandomCore(3)
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        with running_redis(tmp_path) as server:
            async with opened(server, core) as journal:
                await act(core, journal)
                server.process.send_signal(signal.SIGSTOP)
                counting = asyncio.create_task(count_turns())
                await act(core, journal)
                assert turns > 100
                assert journal.state is JournalState.AWAY
                counting.cancel()
                server.process.send_signal(signal.SIGCONT)

    asyncio.run(run())


def test_an_idle_broker_notices_that_redis_is_gone_and_back(tmp_path: Path) -> None:
    async def run() -> None:
        core = RandomCore(4)
        with running_redis(tmp_path, *NOTHING_IS_LOST) as server:
            async with opened(server, core) as journal:
                await act(core, journal)
                server.kill()
                await until(lambda: journal.state is JournalState.AWAY)
                await asyncio.to_thread(server.restart)
                await until(lambda: journal.state is JournalState.PRESENT)
            await assert_stored(server, core)

    asyncio.run(run())


def test_a_full_redis_takes_nothing_and_later_everything(tmp_path: Path) -> None:
    async def run() -> None:
        core = RandomCore(11)
        with running_redis(tmp_path, "--maxmemory-policy", "noeviction") as server:
            async with opened(server, core) as journal:
                await act(core, journal)
                with Redis(port=server.port) as client:
                    client.config_set("maxmemory", 1)
                    await act(core, journal)
                    assert journal.state is JournalState.AWAY
                    client.config_set("maxmemory", 0)
                await until(lambda: journal.state is JournalState.PRESENT)
            await assert_stored(server, core)

    asyncio.run(run())


def test_closing_without_redis_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        core = RandomCore(12)
        with running_redis(tmp_path) as server:
            async with opened(server, core) as journal:
                await act(core, journal)
                server.kill()
                await act(core, journal)

    asyncio.run(run())
    assert "without storing the last changes" in caplog.text
