"""Redis stopped, killed, emptied, full, taken over: the journal goes on and repairs what it can."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from redis import Redis

from broker.core.journal import (
    MessageDone,
    MessageQueued,
    Record,
    SessionEnded,
    SessionSaved,
    SubscriptionSaved,
)
from broker.core.message import Message
from broker.core.subscribe.subscription import SubscriptionTerms
from broker.durability.records.changes import Changes, fold
from broker.durability.records.message_bytes import read_entry
from broker.durability.records.store_commands import StepCommands
from broker.durability.redis_journal import RedisJournal
from broker.ports import JournalLimits, JournalState
from schemas.errors import RedisLinkError
from schemas.redis_keys import (
    broker_lease_key,
    journal_key,
    journal_messages_key,
    journal_session_key,
)
from tests.servers.redis_server import RedisServer, running_redis
from tests.strategies.journal import JournalModel, RandomCore

BROKER = "ours"
# With the default, a killed Redis may lack the last second.
NOTHING_IS_LOST = ("--appendonly", "yes", "--appendfsync", "always")
LIMITS = JournalLimits(answer_seconds=0.5, patience_seconds=1.0, lease_seconds=2.0)


@asynccontextmanager
async def opened(
    server: RedisServer, core: JournalModel, limits: JournalLimits = LIMITS
) -> AsyncIterator[RedisJournal]:
    """A journal that follows the core."""
    journal = RedisJournal(server.url, BROKER, limits)
    await journal.load()
    journal.follow(core)
    try:
        yield journal
    finally:
        await journal.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait on the event loop; the journal's tasks run meanwhile."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the journal tells nobody
            await asyncio.sleep(0.01)


async def act(core: RandomCore, journal: RedisJournal, steps: int = 30) -> None:
    core.act(steps)
    await journal.save(core.take())


async def assert_stored(server: RedisServer, core: JournalModel) -> None:
    """A fresh process finds what the core has."""
    async with opened(server, JournalModel()) as other:
        found = await other._durable.load()
    assert JournalModel(found).content() == core.content()


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


@pytest.mark.parametrize("is_idle", [True, False])
def test_an_emptied_redis_gets_everything_again(redis_server: RedisServer, is_idle: bool) -> None:
    async def run() -> None:
        core = RandomCore(5)
        async with opened(redis_server, core) as journal:
            await act(core, journal, 300)
            with Redis(port=redis_server.port) as client:
                client.flushall()
            if not is_idle:
                await act(core, journal)
            await until(lambda: journal.figures.fresh_editions == 1)
            await until(lambda: journal.state is JournalState.PRESENT)
            await act(core, journal)
        await assert_stored(redis_server, core)

    asyncio.run(run())


def test_a_redis_that_went_back_in_time_gets_everything_again(tmp_path: Path) -> None:
    """As when a replica takes over that had not heard of the last steps."""

    async def run() -> None:
        core = RandomCore(6)
        with running_redis(tmp_path) as server:
            async with opened(server, core) as journal:
                await act(core, journal)
                with Redis(port=server.port) as client:
                    client.save()
                await act(core, journal)
                server.kill()
                await asyncio.to_thread(server.restart)
                await until(lambda: journal.figures.fresh_editions == 1)
                await until(lambda: journal.state is JournalState.PRESENT)
            await assert_stored(server, core)

    asyncio.run(run())


def test_too_many_changes_are_forgotten_and_everything_is_written_anew(tmp_path: Path) -> None:
    async def run() -> None:
        core = RandomCore(7, clients=40)
        limits = JournalLimits(
            answer_seconds=0.5, patience_seconds=1.0, lease_seconds=2.0, waiting_changes=50
        )
        with running_redis(tmp_path, *NOTHING_IS_LOST) as server:
            async with opened(server, core, limits) as journal:
                await act(core, journal)
                server.kill()
                for _ in range(30):
                    await act(core, journal, 100)
                    assert journal._pending.records <= 50, "what waits is bounded"
                await asyncio.to_thread(server.restart)
                await until(lambda: journal.state is JournalState.PRESENT)
                assert journal.figures.fresh_editions == 1
                await act(core, journal)
            await assert_stored(server, core)
            with Redis(port=server.port) as client:
                editions = {key.split(b":e")[1][:1] for key in client.scan_iter("*:e[0-9]*")}
            assert len(editions) == 1, "the old edition is removed"

    asyncio.run(run())


def test_what_happens_while_everything_is_written_anew_is_in_it(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small steps, and changes between any two of them."""
    monkeypatch.setattr("broker.durability.step_store.RECORDS_IN_STEP", 5)

    async def run() -> None:
        core = RandomCore(8, clients=60)
        async with opened(redis_server, core) as journal:
            await act(core, journal, 600)
            with Redis(port=redis_server.port) as client:
                client.flushall()
            await until(lambda: journal.state is JournalState.AWAY)
            acted = 0
            while journal.state is JournalState.AWAY:
                await act(core, journal, 5)
                acted += 1
                await asyncio.sleep(0)
            assert acted > 5
            assert journal.figures.fresh_editions == 1
        await assert_stored(redis_server, core)

    asyncio.run(run())


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


class ScriptedCore(JournalModel):
    """Two sessions, and things that happen while their parts are stored."""

    def __init__(self, server: RedisServer) -> None:
        super().__init__()
        self.happen: list[Callable[[], None]] = []
        self._server = server

    def durable_parts(self) -> Iterator[Sequence[Record]]:
        for part in super().durable_parts():
            yield part
            if self.happen:
                self.happen.pop(0)()

    def fields_of(self, edition: int, client_id: str) -> set[bytes]:
        with Redis(port=self._server.port) as client:
            return set(client.hkeys(journal_session_key(BROKER, edition, client_id)))


def test_between_the_parts_of_a_fresh_edition(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.durability.step_store.RECORDS_IN_STEP", 2)

    async def run() -> None:
        core = ScriptedCore(redis_server)
        message = Message("t", b"x" * 1_000)

        async with opened(redis_server, core) as journal:

            def record(*records: Record) -> None:
                for one in records:
                    core.apply(one)
                fold(journal._pending, records)

            def queued(client_id: str, position: int) -> MessageQueued:
                return MessageQueued(client_id, position, message, 1, retain=False, keys=())

            def after_first() -> None:
                record(queued("b", 1))

            def after_second() -> None:
                # The message was in b's part, and is over now.
                assert b"q1" in core.fields_of(1, "b")
                record(MessageDone("b", 1), queued("a", 5), queued("c", 1))

            def after_third() -> None:
                # More than a step was recorded: it is stored in between.
                assert b"q5" in core.fields_of(1, "a")
                record(queued("a", 6), SessionEnded("c"))

            terms = SubscriptionTerms(topic_filter="t")
            for client_id in ("a", "b", "c"):
                session = SessionSaved(client_id, None, 9, None, None)
                records = [session, SubscriptionSaved(client_id, terms)]
                record(*records)
                await journal.save([])
            core.happen = [after_first, after_second, after_third]
            journal._needs_all = True
            await journal._catch_up()
            assert not core.happen
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
