"""Records in a real Redis: what was saved comes back, once, whole, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis

from broker.core.journal import MessageDone, MessageQueued, Record, SessionEnded, SessionSaved
from broker.core.message import Message
from broker.durability.redis_journal import RedisJournal
from broker.ports import JournalLimits
from redis_link.connection.client import RedisClient
from schemas.errors import JournalError, RedisLinkError
from schemas.redis_keys import (
    broker_lease_key,
    journal_key,
    journal_messages_key,
    journal_session_key,
)
from tests.servers.redis_server import RedisServer, cluster_url, running_cluster
from tests.strategies.journal import JournalModel, RandomCore

BROKER = "ours"
# Long enough for a busy machine to renew it in time.
LIMITS = JournalLimits(lease_seconds=3.0)

Work = Callable[[RedisJournal], Coroutine[Any, Any, None]]


async def with_journal(url: str, work: Work) -> Sequence[Record]:
    """Run the work on a journal; gives what was loaded before it."""
    journal = RedisJournal(url, BROKER, LIMITS)
    try:
        loaded = await journal.load()
        await work(journal)
    finally:
        await journal.close()
    return loaded


async def nothing(_: RedisJournal) -> None:
    """Only load."""


def saved(*records: Record) -> Work:
    async def work(journal: RedisJournal) -> None:
        await journal.save(records)

    return work


def queue(client_id: str, position: int, message: Message) -> MessageQueued:
    return MessageQueued(client_id, position, message, 1, retain=False, keys=("a/#",))


def fields_in_redis(server: RedisServer) -> dict[str, set[str]]:
    """The names of the fields of every session."""
    with Redis(port=server.port, decode_responses=True) as client:
        keys = client.scan_iter(journal_session_key(BROKER, 0, "*").replace("{", "[{]"))
        return {key.partition(":session:")[2]: set(client.hkeys(key)) for key in keys}


def fields_of(core: JournalModel) -> dict[str, set[str]]:
    """Those that there should be, and no other: nothing is left of what is over."""
    expected = {}
    for client_id, session in core.sessions.items():
        queue = session["queue"]
        expected[client_id] = {
            "s",
            *(["w"] if session["saved"].will is not None else []),
            *(f"f{key}" for key in session["subscriptions"] if isinstance(key, str)),
            *(f"n{key}" for key in session["subscriptions"] if isinstance(key, int)),
            *(f"q{position}" for position in queue),
            *(f"i{position}" for position in queue if queue[position][1] is not None),
            *(f"r{packet_id}" for packet_id in session["received"]),
        }
    return expected


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), batches=st.lists(st.integers(0, 60), min_size=1, max_size=8))
def test_random_records_come_back(shared_redis: RedisServer, seed: int, batches: list[int]) -> None:
    with Redis(port=shared_redis.port) as client:
        client.flushall()
    core = RandomCore(seed)

    async def work(journal: RedisJournal) -> None:
        for size in batches:
            core.act(size)
            await journal.save(core.take())

    async def run() -> None:
        assert not await with_journal(shared_redis.url, work)
        # Twice: what was loaded must also be right to go on from.
        loaded = await with_journal(shared_redis.url, work)
        again = await with_journal(shared_redis.url, nothing)
        assert JournalModel(again).content() == core.content()
        assert len(loaded) > 0 or not core.sessions
        assert fields_in_redis(shared_redis) == fields_of(core)

    asyncio.run(run())


def test_a_state_of_nothing_leaves_nothing(redis_server: RedisServer) -> None:
    core = RandomCore(7)

    async def work(journal: RedisJournal) -> None:
        core.act(400)
        await journal.save(core.take())
        core.act(400)
        await journal.save(core.take())
        await journal.save([SessionEnded(client_id) for client_id in core.sessions])

    asyncio.run(with_journal(redis_server.url, work))
    with Redis(port=redis_server.port) as client:
        keys = {key.decode() for key in client.scan_iter()}
    assert {key.rpartition(":")[2] for key in keys} <= {"journal", "retained"}


def test_a_large_message_is_stored_once_until_its_last_receiver_has_it(
    redis_client: RedisClient, redis_server: RedisServer
) -> None:
    message = Message("a/b", b"x" * 50_000)
    clients = [f"c{number}" for number in range(20)]
    sessions = [SessionSaved(client_id, None, 9, None, None) for client_id in clients]
    first = [*sessions, *(queue(client_id, 1, message) for client_id in clients)]
    asyncio.run(with_journal(redis_server.url, saved(*first)))
    messages_key = journal_messages_key(BROKER, 0)
    assert redis_client.hlen(messages_key) == 1
    entry = redis_client.hget(journal_session_key(BROKER, 0, "c3"), "q1")
    assert len(entry or b"") < 50

    loaded = asyncio.run(with_journal(redis_server.url, nothing))
    received = [record.message for record in loaded if isinstance(record, MessageQueued)]
    assert len(received) == 20
    assert len({id(one) for one in received}) == 1, "receivers share the object again"
    assert received[0].payload == message.payload

    most = [MessageDone(client_id, 1) for client_id in clients[:18]]
    asyncio.run(with_journal(redis_server.url, saved(*most, SessionEnded(clients[18]))))
    assert redis_client.hlen(messages_key) == 1
    asyncio.run(with_journal(redis_server.url, saved(MessageDone(clients[19], 1))))
    assert redis_client.hlen(messages_key) == 0


def test_small_messages_and_single_receivers_hold_their_message(
    redis_client: RedisClient, redis_server: RedisServer
) -> None:
    sessions = [SessionSaved(name, None, 9, None, None) for name in ("a", "b")]
    small, large = Message("t", b"small"), Message("t", b"x" * 5_000)
    records = [queue("a", 1, small), queue("b", 1, small), queue("a", 2, large)]
    asyncio.run(with_journal(redis_server.url, saved(*sessions, *records)))
    assert redis_client.hlen(journal_messages_key(BROKER, 0)) == 0


def test_more_words_than_lua_takes_at_once(redis_server: RedisServer) -> None:
    count = 5_000
    message = Message("t", b"p")
    records: list[Record] = [SessionSaved("c", None, 9, None, None)]
    records += [queue("c", position, message) for position in range(1, count + 1)]
    asyncio.run(with_journal(redis_server.url, saved(*records)))
    done = [MessageDone("c", position) for position in range(1, count)]
    loaded = asyncio.run(with_journal(redis_server.url, saved(*done)))
    assert [one.position for one in loaded if isinstance(one, MessageQueued)] == [
        *range(1, count + 1)
    ]
    left = asyncio.run(with_journal(redis_server.url, nothing))
    assert [one.position for one in left if isinstance(one, MessageQueued)] == [count]


def test_what_cancels_out_costs_no_step(redis_server: RedisServer) -> None:
    async def work(journal: RedisJournal) -> None:
        await journal.save([SessionSaved("c", None, 9, None, None)])
        await journal.save([queue("c", 1, Message("t", b"p")), MessageDone("c", 1)])
        await journal.save([queue("c", 2, Message("t", b"p"))])
        with Redis(port=redis_server.port) as client:
            assert client.hget(journal_key(BROKER), "sequence") == b"2"
            assert client.hlen(journal_session_key(BROKER, 0, "c")) == 2

    asyncio.run(with_journal(redis_server.url, work))


def test_in_a_cluster_everything_lies_in_one_slot(tmp_path: Path) -> None:
    core = RandomCore(3)

    async def work(journal: RedisJournal) -> None:
        for _ in range(5):
            core.act(50)
            await journal.save(core.take())

    with running_cluster(tmp_path) as servers:
        asyncio.run(with_journal(cluster_url(servers), work))
        loaded = asyncio.run(with_journal(cluster_url(servers), nothing))
        holders = [server for server in servers if _keys(server)]
    assert JournalModel(loaded).content() == core.content()
    assert len(holders) == 1


def _keys(server: RedisServer) -> int:
    with Redis(port=server.port) as client:
        return int(client.dbsize())


def test_what_a_later_release_wrote_is_refused_and_kept(
    redis_client: RedisClient, redis_server: RedisServer
) -> None:
    records = [SessionSaved("c", None, 9, None, None), queue("c", 1, Message("t", b"p"))]
    asyncio.run(with_journal(redis_server.url, saved(*records)))
    key = journal_session_key(BROKER, 0, "c")
    redis_client.hset(key, "q1", b"\x09")
    with pytest.raises(JournalError, match="has format 9, this release reads 1: start the"):
        asyncio.run(with_journal(redis_server.url, nothing))
    assert redis_client.hget(key, "q1") == b"\x09"


def test_no_redis_no_start() -> None:
    with pytest.raises(RedisLinkError):
        asyncio.run(with_journal("redis://127.0.0.1:1", nothing))


def test_a_second_broker_of_the_same_name_is_refused_and_harms_nothing(
    redis_server: RedisServer,
) -> None:
    async def work(journal: RedisJournal) -> None:
        await journal.save([SessionSaved("a", None, 9, None, None)])
        with pytest.raises(JournalError, match=r"another broker named 'ours' runs: process \d+"):
            await with_journal(redis_server.url, nothing)
        await journal.save([SessionSaved("b", None, 9, None, None)])
        assert journal.figures.not_durable_records == 0

    asyncio.run(with_journal(redis_server.url, work))
    loaded = asyncio.run(with_journal(redis_server.url, nothing))
    assert set(JournalModel(loaded).sessions) == {"a", "b"}


def test_a_lease_of_another_machine_has_to_expire(
    redis_client: RedisClient, redis_server: RedisServer
) -> None:
    lease = {"token": "t", "host": "elsewhere", "place": "elsewhere", "pid": 1, "started": "1"}
    redis_client.set(broker_lease_key(BROKER), json.dumps(lease), px=300)
    asyncio.run(with_journal(redis_server.url, nothing))
    redis_client.set(broker_lease_key(BROKER), json.dumps(lease))
    with pytest.raises(JournalError, match="process 1 on elsewhere"):
        asyncio.run(with_journal(redis_server.url, nothing))
