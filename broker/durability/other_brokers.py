"""Other brokers on the same Redis: they share no clients, sessions or messages."""

from __future__ import annotations

import logging
from typing import Final

from broker.durability.ownership import Lease
from redis_link.connection.redis_router import RedisRouter
from schemas.errors import JournalError
from schemas.redis_keys import broker_lease_key, broker_subscriptions_key, brokers_key

log = logging.getLogger(__name__)

SCANNED_AT_ONCE: Final = 10_000


async def warn_of_islands(router: RedisRouter, broker: str, token: str) -> None:
    """Register this broker, and warn when brokers of other names run on this Redis."""
    key = brokers_key()
    if await router.ask(key, "TYPE", key) not in {b"hash", b"none"}:
        await router.ask(key, "UNLINK", key)
    await router.ask(key, "HSET", key, broker, token)
    for name in sorted(one.decode() for one in await router.ask(key, "HKEYS", key)):
        text = await _lease(router, name) if name != broker else None
        if text is not None:
            log.warning(
                "broker %r runs on this Redis too (%s): the two are islands. They follow the same "
                "generations, and share no clients, sessions or messages",
                name, _holder(text),
            )  # fmt: skip


async def other_broker_sets(router: RedisRouter, broker: str) -> list[str]:
    """Return the keys of the subId sets of brokers with other names."""
    own, cursor = broker_subscriptions_key(broker), b"0"
    found: set[str] = set()
    while True:
        cursor, keys = await router.ask(
            own, "SCAN", cursor, "MATCH", broker_subscriptions_key("*"),
            "COUNT", SCANNED_AT_ONCE, "TYPE", "set",
        )  # fmt: skip
        found |= {key.decode() for key in keys}
        if cursor == b"0":
            return sorted(found - {own})


async def _lease(router: RedisRouter, broker: str) -> bytes | None:
    key = broker_lease_key(broker)
    if await router.ask(key, "TYPE", key) != b"string":
        return None
    text: bytes | None = await router.ask(key, "GET", key)
    return text


def _holder(text: bytes) -> str:
    try:
        lease = Lease.from_json(text)
    except JournalError:
        return "its lease is not understood"
    return f"process {lease.pid} on {lease.host}"
