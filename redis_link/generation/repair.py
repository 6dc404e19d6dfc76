"""Repairs what is lost or damaged in Redis, as far as a full rebuild needs it.

Values that cannot be read are removed; all others stay as they are. A rebuild writes its part again
from the world and the registry, and a broker writes its part again from memory.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

from redis_link.connection.client import RedisClient
from redis_link.connection.failures import redis_errors_from
from redis_link.generation.generation_store import all_generations
from redis_link.registry.registry_reader import READ_AT_ONCE
from schemas.errors import SpapsError
from schemas.generation import GenerationFacts, GenerationState, PushHolder
from schemas.redis_keys import (
    broker_subscriptions_key,
    brokers_key,
    current_generation_key,
    generations_key,
    last_generation_key,
    last_sub_id_key,
    push_lock_key,
    registry_id_key,
    subscriptions_key,
)
from schemas.subscription import Registration

# A set or an index of a generation.
GENERATION_KEY: Final = re.compile(rb"spaps:\{\d+\}:g(\d+):")
GENERATION_KEYS: Final = "spaps:{*}:g*"
NO_SETS: Final = ("string", "list", "hash", "zset", "stream")
SCANNED_AT_ONCE: Final = 10_000
KEYS_AT_ONCE: Final = 500
# Running brokers get this time to register again what the registry has lost.
BROKER_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.1

KINDS: Final = {
    current_generation_key(): b"string",
    generations_key(): b"hash",
    last_generation_key(): b"string",
    push_lock_key(): b"string",
    registry_id_key(): b"string",
    last_sub_id_key(): b"string",
    subscriptions_key(): b"hash",
}

Say = Callable[[str], None]


def repair(client: RedisClient, say: Say) -> None:
    """Remove what cannot be read, so that it can be written again."""
    with redis_errors_from("(the repair)"):
        for key, kind in KINDS.items():
            if client.type(key) not in {kind, b"none"}:
                _remove(client, key, "is of the wrong kind", say)
        _repair_lock(client, say)
        _repair_generations(client, say)
        _repair_registry(client, say)


def remove_orphans(client: RedisClient, say: Say) -> None:
    """Remove the sets of generations that have no facts, or were removed by their facts."""
    with redis_errors_from("(the repair)"):
        known = {
            facts.generation
            for facts in all_generations(client)
            if facts.state is not GenerationState.REMOVED
        }
        orphans = _found(client, lambda number: number not in known)
        removed = _unlink(client, orphans)
        if removed:
            say(f"repair: {removed:,} keys of generations that are gone removed")


def _repair_lock(client: RedisClient, say: Say) -> None:
    """Remove a lock that no push can have taken: it would keep every push out for ever."""
    text = client.get(push_lock_key())
    if text is None:
        return
    try:
        PushHolder.from_json(text)
    except SpapsError:
        _remove(client, push_lock_key(), "is not understood", say)
        return
    if client.ttl(push_lock_key()) == -1:
        _remove(client, push_lock_key(), "never expires", say)


def _repair_generations(client: RedisClient, say: Say) -> None:
    complete = set()
    for field, text in client.hgetall(generations_key()).items():
        try:
            facts = GenerationFacts.from_json(int(field), text)
        except (SpapsError, ValueError):
            say(f"repair: the facts of generation {field!r} are damaged and are removed")
            client.hdel(generations_key(), field)
            continue
        if facts.state is GenerationState.COMPLETE:
            complete.add(facts.generation)
    current = client.get(current_generation_key())
    if current is not None and not (current.isdigit() and int(current) in complete):
        _remove(client, current_generation_key(), "names no complete generation", say)
    counter = client.get(last_generation_key())
    if counter is not None and not counter.isdigit():
        _remove(client, last_generation_key(), "is no number", say)
    wrong = _unlink(client, (key for kind in NO_SETS for key in _found(client, kind=kind)))
    if wrong:
        say(f"repair: {wrong:,} keys of generations were no sets and are removed")
    numbers = {number for key in _found(client) if (number := _number(key)) is not None}
    highest = max(numbers, default=0)
    if int(client.get(last_generation_key()) or 0) < highest:
        client.set(last_generation_key(), highest)


def _repair_registry(client: RedisClient, say: Say) -> None:
    """Remove what cannot be read, and let running brokers put back what they hold."""
    counter = client.get(last_sub_id_key())
    if counter is not None and not counter.isdigit():
        _remove(client, last_sub_id_key(), "is no number", say)
    broken = list(_broken_registrations(client))
    for start in range(0, len(broken), KEYS_AT_ONCE):
        client.hdel(subscriptions_key(), *broken[start : start + KEYS_AT_ONCE])
    has_name = client.get(registry_id_key()) is not None
    has_counter = client.exists(last_sub_id_key()) > 0
    has_entries = client.exists(subscriptions_key()) > 0
    is_whole = has_name and has_counter and (has_entries or not _brokers_hold_any(client))
    if not broken and (is_whole or not (has_name or has_counter or has_entries)):
        return
    say(f"repair: the registry lacks something ({len(broken)} entries broken): brokers put it back")
    highest = max((int(number) for number in client.hkeys(subscriptions_key())), default=0)
    if int(client.get(last_sub_id_key()) or 0) < highest:
        client.set(last_sub_id_key(), highest)
    # Brokers put their registrations back into a registry without a name.
    client.delete(registry_id_key())
    deadline = time.monotonic() + BROKER_SECONDS
    while client.get(registry_id_key()) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    # No running broker has neighborhoods. Brokers that start later register theirs again.
    client.set(registry_id_key(), uuid.uuid4().hex, nx=True)


def _brokers_hold_any(client: RedisClient) -> bool:
    """Return whether a broker has registered subscriptions, by its own list."""
    if client.type(brokers_key()) != b"hash":
        return False
    names: Any = client.hkeys(brokers_key())
    return any(client.exists(broker_subscriptions_key(name.decode())) for name in names)


def _broken_registrations(client: RedisClient) -> Iterator[bytes]:
    for field, text in client.hscan_iter(subscriptions_key(), count=READ_AT_ONCE):
        try:
            Registration.from_json(int(field), text)
        except (SpapsError, ValueError):
            yield field


def _found(
    client: RedisClient,
    is_wanted: Callable[[int], bool] = lambda _: True,
    kind: str | None = None,
) -> Iterator[bytes]:
    """Yield the keys of generations, by number and by the type of Redis."""
    for key in client.scan_iter(match=GENERATION_KEYS, count=SCANNED_AT_ONCE, _type=kind):
        number = _number(key)
        if number is not None and is_wanted(number):
            yield key


def _number(key: bytes) -> int | None:
    found = GENERATION_KEY.match(key)
    return None if found is None else int(found[1])


def _unlink(client: RedisClient, keys: Iterator[bytes]) -> int:
    # Scan first, then remove: a scan gives keys twice when others are removed meanwhile.
    found = list(set(keys))
    for start in range(0, len(found), KEYS_AT_ONCE):
        with client.pipeline(transaction=False) as pipe:
            for key in found[start : start + KEYS_AT_ONCE]:
                pipe.unlink(key)
            pipe.execute()
    return len(found)


def _remove(client: RedisClient, key: str, why: str, say: Say) -> None:
    say(f"repair: {key} {why} and is removed")
    client.delete(key)
