"""Redis emptied or set back: the journal writes a fresh edition of the whole state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

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
from broker.durability.records.changes import fold
from broker.ports import JournalLimits, JournalState
from schemas.redis_keys import journal_session_key
from tests.scenes.broker.journals import BROKER, NOTHING_IS_LOST, act, assert_stored, opened, until
from tests.servers.redis_server import RedisServer, running_redis
from tests.strategies.journal import JournalModel, RandomCore


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
