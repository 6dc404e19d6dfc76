"""Sessions that an earlier release stored by their client id alone, in a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broker.core.journal import MessageQueued, Record, SessionSaved
from broker.core.message import Message
from broker.durability.redis_journal import RedisJournal
from broker.ports import JournalLimits
from redis_link.connection.client import RedisClient
from schemas.redis_keys import journal_messages_key, journal_sessions_key
from tests.broker_core import encode
from tests.broker_core.harness import Harness
from tests.servers.redis_server import RedisServer

BROKER = "ours"
LARGE = Message("t", b"x" * 50_000)


def loaded_and_saved(url: str, records: Sequence[Record] = ()) -> tuple[list[Record], Harness]:
    """Load as a broker does at its start, store what that writes, then these records."""

    async def work() -> tuple[list[Record], Harness]:
        journal = RedisJournal(url, BROKER, JournalLimits(lease_seconds=3.0))
        try:
            found = list(await journal.load())
            harness = Harness(durable=True)
            harness.core.restore(found)
            await journal.save(harness.core.journal.take()[1])
            await journal.save(records)
        finally:
            await journal.close()
        return found, harness

    return asyncio.run(work())


def test_they_are_renamed_once_and_keep_what_they_share(
    redis_client: RedisClient, redis_server: RedisServer
) -> None:
    owners = {"c": "ann", "d": "bob", "e": None}
    old: list[Record] = [
        SessionSaved(name, user, 3_600, 2_000_000_000.0, None) for name, user in owners.items()
    ]
    old += [MessageQueued(name, 1, LARGE, 1, retain=False, keys=()) for name in owners]
    loaded_and_saved(redis_server.url, old)
    loaded_and_saved(redis_server.url)
    names = redis_client.smembers(journal_sessions_key(BROKER, 0))
    assert names == {b"ann\0c", b"bob\0d", b"e"}
    assert redis_client.hlen(journal_messages_key(BROKER, 0)) <= 2

    found, harness = loaded_and_saved(redis_server.url)
    queued = [one for one in found if isinstance(one, MessageQueued)]
    assert {one.client_id for one in queued} == {"ann\0c", "bob\0d", "e"}
    assert {one.message.payload for one in queued} == {LARGE.payload}
    for client_id, user in owners.items():
        login = {"flags": 0} if user is None else {"flags": 0x80, "rest": encode.text(user)}
        connack = harness.connect(client_id, **login).take()[0]
        assert connack.session_present, client_id
