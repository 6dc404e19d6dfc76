"""Steps of the journal that fail, come twice or come too late, and the lease between them."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from random import Random

import pytest
from redis import Redis

from broker.core.journal import MessageQueued, SessionSaved
from broker.core.message import Message
from broker.durability.records.changes import Changes, fold
from broker.durability.records.message_bytes import read_entry
from broker.durability.records.store_commands import StepCommands
from broker.ports import JournalLimits, JournalState
from schemas.errors import RedisLinkError
from schemas.redis_keys import broker_lease_key, journal_key, journal_messages_key
from tests.scenes.broker.journals import BROKER, act, assert_stored, opened, until
from tests.servers.redis_server import RedisServer, running_redis
from tests.strategies.journal import JournalModel, RandomCore


def test_the_lease_is_renewed_between_steps_also_when_scripts_are_forgotten(
    redis_server: RedisServer,
) -> None:
    """A renewal that has to be sent twice is overtaken by steps, and that is no harm."""

    async def run() -> None:
        core = RandomCore(13)
        limits = JournalLimits(lease_seconds=0.03)
        async with opened(redis_server, core, limits) as journal:
            with Redis(port=redis_server.port) as client:
                for number in range(400):
                    await act(core, journal, 2)
                    if number % 2:
                        client.script_flush()
            assert journal.figures.times_away == 0
        await assert_stored(redis_server, core)

    asyncio.run(run())


def kept_messages(server: RedisServer) -> set[int]:
    """The messages that are kept for several sessions."""
    with Redis(port=server.port) as client:
        return {int(number) for number in client.hkeys(journal_messages_key(BROKER, 0))}


def named_messages(server: RedisServer) -> set[int]:
    """Those that some entry names."""
    named = set()
    with Redis(port=server.port) as client:
        for key in client.scan_iter("*:session:*"):
            for field, value in client.hgetall(key).items():
                message = read_entry(value).message if field.startswith(b"q") else None
                if isinstance(message, int):
                    named.add(message)
    return named


@pytest.mark.parametrize("seed", range(8))
def test_steps_that_fail_before_or_after_they_were_stored(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("broker.durability.redis_journal.FIRST_PAUSE", 0)
    random = Random(seed)  # noqa: S311 - a test that can be repeated

    async def run() -> None:
        core = RandomCore(seed)
        limits = JournalLimits(patience_seconds=60)
        async with opened(redis_server, core, limits) as journal:
            steps = journal._durable._steps
            store = steps.run

            def more_happens() -> None:
                core.act(15)
                fold(journal._pending, core.take())

            async def fail_often(commands: StepCommands) -> None:
                chance = random.random()
                if chance < 0.6:
                    await store(commands)
                if chance > 0.4:
                    # More happens before this is known, and before the next attempt.
                    more_happens()
                    asyncio.get_running_loop().call_soon(more_happens)
                    raise RedisLinkError("lost on its way")

            monkeypatch.setattr(steps, "run", fail_often)
            for _ in range(15):
                await act(core, journal, 20)
            monkeypatch.setattr(steps, "run", store)
            await act(core, journal)
            assert journal.figures.not_durable_records == 0
        assert kept_messages(redis_server) == named_messages(redis_server)
        await assert_stored(redis_server, core)

    asyncio.run(run())


def test_a_process_that_was_overtaken_never_writes_again(redis_server: RedisServer) -> None:
    async def run() -> None:
        core, other = RandomCore(9), RandomCore(10)
        async with opened(redis_server, core) as journal:
            await act(core, journal)
            with Redis(port=redis_server.port) as client:
                # As if this process had been asleep until its lease expired.
                client.delete(broker_lease_key(BROKER))
                client.hset(journal_key(BROKER), "owner", "somebody else")
            await act(core, journal)
            assert journal.state is JournalState.TAKEN
            with Redis(port=redis_server.port) as client:
                before = client.dump(journal_key(BROKER))
                await act(core, journal)
                assert client.dump(journal_key(BROKER)) == before
        async with opened(redis_server, other) as journal:
            await act(other, journal)

    asyncio.run(run())


def test_a_step_that_comes_too_late_is_rejected(tmp_path: Path) -> None:
    """Given up while Redis was stopped, it still lies in Redis' socket when that goes on."""

    async def run() -> None:
        core = JournalModel()
        limits = JournalLimits(answer_seconds=0.2, patience_seconds=0.1, lease_seconds=60)
        with running_redis(tmp_path) as server:
            async with opened(server, core, limits) as journal:
                session = SessionSaved("c", None, 9, None, None)
                core.apply(session)
                await journal.save([session])
                server.process.send_signal(signal.SIGSTOP)
                queued = MessageQueued("c", 1, Message("t", b"p"), 1, retain=False, keys=())
                await journal.save([queued])
                assert journal.state is JournalState.AWAY
                steps = journal._durable._steps
                late = (steps._confirmed, steps._tried)
                server.process.send_signal(signal.SIGCONT)
                await until(lambda: journal.state is JournalState.PRESENT)
                core.apply(queued)
                # The same step once more, with the numbers that it had.
                current = (steps._confirmed, steps._tried)
                steps._confirmed, steps._tried = late[0], late[1] - 1
                with pytest.raises(RedisLinkError, match="does not have"):
                    await journal._durable.store(_ghost())
                steps._confirmed, steps._tried = current
            await assert_stored(server, core)

    asyncio.run(run())


def _ghost() -> Changes:
    changes = Changes()
    fold(changes, [MessageQueued("c", 9, Message("t", b"late"), 1, retain=False, keys=())])
    return changes
