"""Keys of the durable state are lost, one by one: written again, or named and left out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from broker.core.journal import (
    MessageQueued,
    Record,
    RetainedSaved,
    SessionSaved,
    SubscriptionSaved,
)
from broker.core.message import Message
from broker.core.subscribe.subscription import SubscriptionTerms
from broker.durability.redis_journal import RedisJournal
from broker.ports import JournalLimits, JournalState
from redis_link.connection.client import RedisClient
from schemas.redis_keys import (
    broker_lease_key,
    journal_damaged_key,
    journal_key,
    journal_messages_key,
    journal_retained_key,
    journal_session_key,
    journal_sessions_key,
)
from tests.servers.redis_server import RedisServer
from tests.strategies.journal import JournalModel

BROKER = "ours"
LIMITS = JournalLimits(lease_seconds=0.6)
CLIENTS = ("a", "b", "c")
LARGE = Message("large", b"x" * 1_000, qos=1)
# Enough for several messages that two sessions wait for, which lie apart from them.
STATE: list[Record] = [
    *(SessionSaved(name, None, 9, None, None) for name in CLIENTS),
    SubscriptionSaved("a", SubscriptionTerms(topic_filter="t/#")),
    *(MessageQueued(name, 1, LARGE, 1, retain=False, keys=()) for name in CLIENTS),
    MessageQueued("a", 2, Message("small", b"own", qos=1), 1, retain=False, keys=()),
    RetainedSaved(Message("kept/a", b"r", retain=True)),
    RetainedSaved(Message("kept/b", b"s", retain=True)),
]

Damage = Callable[[RedisClient, str], object]


def delete(client: RedisClient, key: str) -> None:
    client.delete(key)


def replace_by_list(client: RedisClient, key: str) -> None:
    client.delete(key)
    client.rpush(key, "of the wrong kind")


def replace_by_words(client: RedisClient, key: str) -> None:
    client.set(key, "no JSON")


KEYS = {
    "head": journal_key(BROKER),
    "lease": broker_lease_key(BROKER),
    "index": journal_sessions_key(BROKER, 0),
    "session": journal_session_key(BROKER, 0, "b"),
    "retained": journal_retained_key(BROKER, 0),
    "messages": journal_messages_key(BROKER, 0),
}
WAYS: dict[str, Damage] = {
    "deleted": delete, "a list": replace_by_list, "words": replace_by_words,
}  # fmt: skip
EACH_KEY = pytest.mark.parametrize("key", KEYS)
EACH_WAY = pytest.mark.parametrize("way", WAYS)


@dataclass
class Loaded:
    core: JournalModel
    losses: list[str]
    copies: set[str]


def store(url: str, records: list[Record]) -> None:
    async def run() -> None:
        journal = RedisJournal(url, BROKER, LIMITS)
        await journal.load()
        await journal.save(records)
        await journal.close()

    asyncio.run(run())


def load(url: str, client: RedisClient) -> Loaded:
    """As a broker does it at its start; it stays until everything is stored again."""

    async def run() -> Loaded:
        core = JournalModel()
        journal = RedisJournal(url, BROKER, LIMITS)
        journal.follow(core)
        for record in await journal.load():
            core.apply(record)
        if journal.losses:
            await until(lambda: journal.figures.fresh_editions == 1)
        await journal.close()
        copies = {key.decode() for key in client.scan_iter(journal_damaged_key(BROKER, "*"))}
        return Loaded(core, list(journal.losses), copies)

    return asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the journal tells nobody
            await asyncio.sleep(0.01)


@EACH_KEY
@EACH_WAY
def test_a_running_broker_writes_what_was_lost_again(
    redis_server: RedisServer, redis_client: RedisClient, key: str, way: str
) -> None:
    async def run() -> None:
        core = JournalModel(STATE)
        journal = RedisJournal(redis_server.url, BROKER, LIMITS)
        journal.follow(core)
        await journal.load()
        await journal.save(STATE)
        WAYS[way](redis_client, KEYS[key])
        if key != "lease":
            await until(lambda: journal.figures.fresh_editions > 0)
        await until(lambda: journal.state is JournalState.PRESENT)
        await journal.close()

    asyncio.run(run())
    found = load(redis_server.url, redis_client)
    assert found.losses == []
    assert found.core.content() == JournalModel(STATE).content()


@EACH_KEY
@EACH_WAY
def test_a_broker_starts_with_what_is_left_and_names_the_rest(
    redis_server: RedisServer, redis_client: RedisClient, key: str, way: str
) -> None:
    store(redis_server.url, STATE)
    WAYS[way](redis_client, KEYS[key])
    found = load(redis_server.url, redis_client)
    sessions = set(found.core.sessions)
    left = [*CLIENTS]
    if key == "session":
        left.remove("b")
        assert any("'b'" in line for line in found.losses)
    assert sessions == set(left)
    if key == "messages":
        assert len(found.losses) >= len(CLIENTS)
    if key == "retained":
        assert any("2 of 2 retained messages are gone" in line for line in found.losses)
    if way != "deleted" and key in {"session", "retained", "messages"}:
        assert journal_damaged_key(BROKER, KEYS[key]) in found.copies
    # The next start finds everything whole.
    again = load(redis_server.url, redis_client)
    assert again.losses == []
    assert again.core.content() == found.core.content()


def test_a_session_of_many_that_vanishes_is_noticed(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    """Eviction takes any key: sessions are looked at in turn."""
    records: list[Record] = [SessionSaved(f"c{n}", None, 9, None, None) for n in range(450)]

    async def run() -> None:
        journal = RedisJournal(redis_server.url, BROKER, LIMITS)
        journal.follow(JournalModel(records))
        await journal.load()
        await journal.save(records)
        redis_client.delete(journal_session_key(BROKER, 0, "c123"))
        await until(lambda: journal.figures.fresh_editions == 1)
        await until(lambda: journal.state is JournalState.PRESENT)
        await journal.close()

    asyncio.run(run())
    assert redis_client.hlen(journal_session_key(BROKER, 1, "c123"))


@pytest.mark.parametrize("key", ["session", "index", "retained", "messages"])
def test_what_was_lost_is_not_written_again_in_part(
    redis_server: RedisServer, redis_client: RedisClient, key: str
) -> None:
    """A step that comes before the loss is noticed must not hide it."""
    later: list[Record] = [
        SessionSaved("b", None, 10, None, None),
        SessionSaved("d", None, 10, None, None),
        MessageQueued("b", 2, Message("small", b"new", qos=1), 1, retain=False, keys=()),
        RetainedSaved(Message("kept/c", b"t", retain=True)),
        *(MessageQueued(name, 3, LARGE, 1, retain=False, keys=()) for name in CLIENTS),
    ]

    async def run() -> None:
        core = JournalModel(STATE)
        journal = RedisJournal(redis_server.url, BROKER, JournalLimits(lease_seconds=600))
        journal.follow(core)
        await journal.load()
        await journal.save(STATE)
        redis_client.delete(KEYS[key])
        for record in later:
            core.apply(record)
        await journal.save(later)
        await until(lambda: journal.state is JournalState.PRESENT)
        assert journal.figures.fresh_editions == 1
        await journal.close()

    asyncio.run(run())
    found = load(redis_server.url, redis_client)
    assert found.losses == []
    assert found.core.content() == JournalModel([*STATE, *later]).content()


def test_the_number_of_the_edition_is_found_again(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    """Without it all sessions would be forgotten in silence."""
    store(redis_server.url, STATE)
    redis_client.delete(journal_session_key(BROKER, 0, "b"))
    load(redis_server.url, redis_client)
    redis_client.delete(journal_key(BROKER))
    found = load(redis_server.url, redis_client)
    assert set(found.core.sessions) == {"a", "c"}
    assert found.losses == ["which edition is in force was lost; edition 1 is used"]
