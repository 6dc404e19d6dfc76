"""Reads the registry of subscriptions: what it covers, its subIds, its registrations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from redis_link.connection.client import RedisClient
from redis_link.connection.failures import damage_in, redis_errors_from
from schemas.generation import RegistryCoverage
from schemas.redis_keys import (
    last_sub_id_key,
    registry_id_key,
    subscriptions_key,
)
from schemas.subscription import Registration

READ_AT_ONCE: Final = 1_000
# Up to this many subIds come with one command, which keeps Redis busy for some ten milliseconds.
# A scan lets Redis answer others and takes ten times as long: it reads the registrations as well.
NUMBERS_AT_ONCE: Final = 200_000

# KEYS: subscriptions. ARGV: cursor, how many at once. Returns the next cursor and subIds.
NUMBERS: Final = """
local answer = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local numbers = {}
for place = 1, #answer[2], 2 do numbers[#numbers + 1] = answer[2][place] end
return {answer[1], numbers}
"""

# KEYS: subscriptions. ARGV: subIds. Returns for each 1 or 0.
ARE_REGISTERED: Final = """
local found = {}
for place, number in ipairs(ARGV) do
  found[place] = redis.call('HEXISTS', KEYS[1], number)
end
return found
"""

_WHAT: Final = "(the registered subscriptions)"


def registry_coverage(client: RedisClient) -> RegistryCoverage:
    """Return what a generation covers that is made of the subscriptions read after this call."""
    with redis_errors_from(_WHAT), damage_in("the registry"):
        name: Any = client.get(registry_id_key())
        up_to = int(client.get(last_sub_id_key()) or 0)
    return RegistryCoverage("" if name is None else name.decode(), up_to)


def registration_count(client: RedisClient) -> int:
    """Return how many subscriptions are registered."""
    with redis_errors_from(_WHAT), damage_in("the registry"):
        return int(client.hlen(subscriptions_key()))


def registered_numbers(client: RedisClient) -> set[int]:
    """Return every registered subId; one that comes or goes meanwhile may be missing or there.

    A registration never changes, so a reader that has it needs no more than its number.
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


def registered_among(client: RedisClient, sub_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each subId whether it is registered."""
    found: list[int] = []
    with redis_errors_from(_WHAT), damage_in("the registry"):
        for at in range(0, len(sub_ids), READ_AT_ONCE):
            part = [str(sub_id) for sub_id in sub_ids[at : at + READ_AT_ONCE].tolist()]
            answer: Any = client.eval(ARE_REGISTERED, 1, subscriptions_key(), *part)
            found += answer
    return np.array(found, np.bool_)


def registrations_of(
    client: RedisClient, sub_ids: Sequence[int]
) -> Iterator[tuple[int, Registration]]:
    """Yield the registrations of these subIds, without those that were removed."""
    with redis_errors_from(_WHAT), damage_in("the registry"):
        for at in range(0, len(sub_ids), READ_AT_ONCE):
            part = sub_ids[at : at + READ_AT_ONCE]
            texts: Any = client.hmget(subscriptions_key(), [str(sub_id) for sub_id in part])
            for sub_id, text in zip(part, texts, strict=True):
                if text is not None:
                    yield sub_id, Registration.from_json(sub_id, text)


def registered_subscriptions(client: RedisClient) -> Iterator[tuple[int, Registration]]:
    """Yield every registered subscription with its subId, in no order, each once.

    One that is registered or removed meanwhile may be missing or there.
    """
    seen: set[int] = set()
    with redis_errors_from(_WHAT), damage_in("the registry"):
        for field, text in client.hscan_iter(subscriptions_key(), count=READ_AT_ONCE):
            sub_id = int(field)
            if sub_id not in seen:  # HSCAN may give an entry twice when the hash grows
                seen.add(sub_id)
                yield sub_id, Registration.from_json(sub_id, text)
