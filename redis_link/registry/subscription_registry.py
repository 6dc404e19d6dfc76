"""Registered subscriptions: given numbers, read as a whole, removed.

A subId is never given twice. So a set that still names a removed subscription names nobody,
and a generation says all about itself with one number: it holds every subscription up to
that subId (docs/decisions/0052).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis_link.connection.client import RedisClient
from redis_link.connection.failures import damage_in, redis_errors_from
from schemas.generation import RegistryCoverage
from schemas.redis_keys import (
    client_subscriptions_key,
    last_sub_id_key,
    registry_id_key,
    subscriptions_key,
)
from schemas.subscription import Registration

READ_AT_ONCE: Final = 1_000
# Up to so many one command gives all numbers and keeps Redis busy for some ten milliseconds.
# A scan is kinder, and takes ten times as long, because it looks at the registrations as well.
NUMBERS_AT_ONCE: Final = 200_000

# KEYS: id, counter, subscriptions, client. ARGV: an id for a new registry, nsid, registration.
# Gives the subId and the one that it replaces, 0 for none. The same again gives the same subId.
REGISTER: Final = """
redis.call('SET', KEYS[1], ARGV[1], 'NX')
local old = redis.call('HGET', KEYS[4], ARGV[2])
if old and redis.call('HGET', KEYS[3], old) == ARGV[3] then return {old, '0'} end
local new = tostring(redis.call('INCR', KEYS[2]))
redis.call('HSET', KEYS[3], new, ARGV[3])
redis.call('HSET', KEYS[4], ARGV[2], new)
if old then redis.call('HDEL', KEYS[3], old) end
return {new, old or '0'}
"""
# KEYS: subscriptions, client. ARGV: nsids, none for all. Gives the subIds that were removed.
UNREGISTER: Final = """
local nsids = ARGV
if #nsids == 0 then nsids = redis.call('HKEYS', KEYS[2]) end
local removed = {}
for _, nsid in ipairs(nsids) do
  local old = redis.call('HGET', KEYS[2], nsid)
  if old then
    redis.call('HDEL', KEYS[1], old)
    redis.call('HDEL', KEYS[2], nsid)
    removed[#removed + 1] = old
  end
end
return removed
"""

# KEYS: subscriptions. ARGV: cursor, how many at once. Gives the next cursor and subIds.
NUMBERS: Final = """
local answer = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local numbers = {}
for place = 1, #answer[2], 2 do numbers[#numbers + 1] = answer[2][place] end
return {answer[1], numbers}
"""

_WHAT: Final = "(the registered subscriptions)"


@dataclass(frozen=True, slots=True)
class Registered:
    """The subId of a registration, and the one whose nsid it took over."""

    sub_id: int
    replaced: int | None


def register(client: RedisClient, registration: Registration) -> Registered:
    """Register a subscription; what the client of its broker held under the nsid is replaced."""
    keys = (
        registry_id_key(),
        last_sub_id_key(),
        subscriptions_key(),
        client_subscriptions_key(registration.broker, registration.client_id),
    )
    with redis_errors_from(_WHAT):
        new, old = client.eval(
            REGISTER, len(keys), *keys,
            uuid.uuid4().hex, str(registration.nsid), registration.to_json(),
        )  # fmt: skip
    return Registered(int(new), int(old) or None)


def unregister(
    client: RedisClient, client_id: str, nsids: tuple[int, ...] = (), *, broker: str = ""
) -> tuple[int, ...]:
    """Remove subscriptions of a broker's client, all when no nsid is given; their subIds."""
    keys = (subscriptions_key(), client_subscriptions_key(broker, client_id))
    with redis_errors_from(_WHAT):
        removed = client.eval(UNREGISTER, len(keys), *keys, *map(str, nsids))
    return tuple(int(sub_id) for sub_id in removed)


def registry_coverage(client: RedisClient) -> RegistryCoverage:
    """What a generation covers that is made of the subscriptions read after this call."""
    with redis_errors_from(_WHAT), damage_in("the registry"):
        name: Any = client.get(registry_id_key())
        up_to = int(client.get(last_sub_id_key()) or 0)
    return RegistryCoverage("" if name is None else name.decode(), up_to)


def registered_numbers(client: RedisClient) -> set[int]:
    """Every registered subId; what comes or goes meanwhile may be missing or there.

    A registration never changes, so who has read one needs no more than its number.
    """
    numbers: set[int] = set()
    cursor = b"0"
    with redis_errors_from(_WHAT), damage_in("the registry"):
        if client.hlen(subscriptions_key()) <= NUMBERS_AT_ONCE:
            return set(map(int, client.hkeys(subscriptions_key())))
        while True:
            answer: Any = client.eval(
                NUMBERS, 1, subscriptions_key(), cursor.decode(), str(READ_AT_ONCE)
            )
            cursor, found = answer
            numbers.update(map(int, found))
            if cursor == b"0":
                return numbers


def registrations_of(
    client: RedisClient, sub_ids: Sequence[int]
) -> Iterator[tuple[int, Registration]]:
    """The registrations of these subIds; those that were removed do not come."""
    with redis_errors_from(_WHAT), damage_in("the registry"):
        for at in range(0, len(sub_ids), READ_AT_ONCE):
            part = sub_ids[at : at + READ_AT_ONCE]
            texts: Any = client.hmget(subscriptions_key(), [str(sub_id) for sub_id in part])
            for sub_id, text in zip(part, texts, strict=True):
                if text is not None:
                    yield sub_id, Registration.from_json(sub_id, text)


def registered_subscriptions(client: RedisClient) -> Iterator[tuple[int, Registration]]:
    """Every registered subscription with its subId, in no order, each once.

    What is registered or removed meanwhile may be missing or there; what is there all the
    time comes for certain.
    """
    seen: set[int] = set()
    with redis_errors_from(_WHAT), damage_in("the registry"):
        for field, text in client.hscan_iter(subscriptions_key(), count=READ_AT_ONCE):
            sub_id = int(field)
            if sub_id not in seen:  # HSCAN may give an entry twice when the hash grows
                seen.add(sub_id)
                yield sub_id, Registration.from_json(sub_id, text)
