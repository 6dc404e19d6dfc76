"""Reads and changes what Redis knows of generations: their facts, which one is current, changes.

Every script names what it expects to find, and does nothing when that is outdated. A script that
finds its work done reports success: redis-py repeats a command whose answer was lost.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from redis_link.connection.client import RedisClient
from redis_link.connection.failures import damage_in, redis_errors_from
from schemas.errors import DamagedRedisError, GenerationError
from schemas.generation import GenerationFacts, GenerationState
from schemas.redis_keys import (
    GENERATION_CHANNEL,
    current_generation_key,
    generation_changes_key,
    generations_key,
    last_generation_key,
    push_lock_key,
)
from spatial_udfs.entity_table import Int64s

# A replaced generation may be read for this time before it is removed.
GRACE_SECONDS: Final = 30.0
# KEYS: lock, counter, generations, current. ARGV: lock value, facts. Returns the number; 0 when the
# lock was lost. The counter may be lost too, so the number is above every known one.
BEGIN: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local highest = tonumber(redis.call('GET', KEYS[4]) or '0') or 0
for _, known in ipairs(redis.call('HKEYS', KEYS[3])) do
  highest = math.max(highest, tonumber(known) or 0)
end
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if last and last < highest then redis.call('SET', KEYS[2], highest) end
local number = redis.call('INCR', KEYS[2])
redis.call('HSET', KEYS[3], number, ARGV[2])
return number
"""
# KEYS: lock, current, generations. ARGV: lock value, number, its facts, its new facts,
# current number, its facts, its new facts ('' thrice for none), channel, notice.
SWITCH: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'the push lock was lost' end
local current = redis.call('GET', KEYS[2]) or ''
local facts = redis.call('HGET', KEYS[3], ARGV[2])
if current == ARGV[2] and facts == ARGV[4] then return '' end
if facts ~= ARGV[3] then return 'its facts were changed by somebody else' end
if current ~= ARGV[5] then return 'another generation became current meanwhile' end
if current ~= '' and ARGV[6] ~= '' then
  if redis.call('HGET', KEYS[3], current) ~= ARGV[6] then
    return 'the facts of the current generation were changed by somebody else'
  end
  redis.call('HSET', KEYS[3], current, ARGV[7])
end
redis.call('HSET', KEYS[3], ARGV[2], ARGV[4])
redis.call('SET', KEYS[2], ARGV[2])
redis.call('PUBLISH', ARGV[8], ARGV[9])
return ''
"""
# KEYS: current, generations. ARGV: number, its facts, its new facts ('': forget them).
CHANGE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return 0 end
local facts = redis.call('HGET', KEYS[2], ARGV[1]) or ''
if facts == ARGV[3] then return 1 end
if facts ~= ARGV[2] then return 0 end
if ARGV[3] == '' then return redis.call('HDEL', KEYS[2], ARGV[1]) end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return 1
"""
# It gets a key, so that a cluster asks the node of the control keys.
TIME: Final = "return redis.call('TIME')"

_WHAT: Final = "(the facts of generations)"

# Redis keeps the changes by subscription for this time. A broker that changes over later tells its
# subscribers only the new version.
KEEP_SECONDS: Final = 86_400
# Lowest byte first, whatever the machine.
PACKED: Final = np.dtype([("subId", "<i8"), ("gained", "<i4"), ("lost", "<i4"), ("lacks", "?")])


def current_number(client: RedisClient) -> int | None:
    """Return the number of the generation in force; None when there was never one."""
    with redis_errors_from(_WHAT), damage_in("the pointer to the generation in force"):
        number = client.get(current_generation_key())
        return None if number is None else int(number)


def current_generation(client: RedisClient) -> GenerationFacts | None:
    """Return the facts of the generation in force; None when there was never one."""
    number = current_number(client)
    if number is None:
        return None
    with redis_errors_from(_WHAT), damage_in("the table of generations"):
        facts = client.hget(generations_key(), str(number))
    if facts is None:
        raise DamagedRedisError(f"generation {number} is in force, and its facts are gone")
    return GenerationFacts.from_json(number, facts)


def all_generations(client: RedisClient) -> list[GenerationFacts]:
    """Return the facts of every generation that Redis knows, by number."""
    with redis_errors_from(_WHAT), damage_in("the table of generations"):
        found = client.hgetall(generations_key())
        return sorted(
            (GenerationFacts.from_json(int(number), facts) for number, facts in found.items()),
            key=lambda facts: facts.generation,
        )


def server_time(client: RedisClient) -> float:
    """Return the seconds since 1970 by the clock of Redis, which all machines share."""
    with redis_errors_from(_WHAT):
        seconds, microseconds = client.eval(TIME, 1, current_generation_key())
    return int(seconds) + int(microseconds) / 1e6


def begin_generation(
    client: RedisClient, lock_value: str, facts: GenerationFacts
) -> GenerationFacts:
    """Give a number to a generation that is about to be built, and record its facts."""
    keys = (
        push_lock_key(), last_generation_key(), generations_key(), current_generation_key(),
    )  # fmt: skip
    with redis_errors_from(_WHAT), damage_in("the counter of generations"):
        number = int(client.eval(BEGIN, len(keys), *keys, lock_value, facts.to_json()))
    if number == 0:
        raise GenerationError("no generation was begun: the push lock was lost")
    return replace(facts, generation=number)


def switch_generation(
    client: RedisClient, lock_value: str, facts: GenerationFacts, completed: GenerationFacts
) -> GenerationFacts | None:
    """Make a generation current in one step; return the facts of the one that it replaced."""
    number = current_number(client)
    old = {known.generation: known for known in all_generations(client)}.get(number or 0)
    old_texts = ["" if number is None else str(number), "", ""]
    if old is not None:
        retired = replace(old, retired_at=server_time(client))
        old_texts[1:] = [old.to_json(), retired.to_json()]
    notice = {"generation": facts.generation, "version": facts.version, "token": facts.token}
    keys = (push_lock_key(), current_generation_key(), generations_key())
    new_texts = [str(facts.generation), facts.to_json(), completed.to_json()]
    with redis_errors_from(_WHAT):
        refusal = client.eval(
            SWITCH, len(keys), *keys, lock_value, *new_texts, *old_texts,
            GENERATION_CHANNEL, json.dumps(notice, separators=(",", ":")),
        )  # fmt: skip
    if refusal:
        raise GenerationError(
            f"generation {facts.generation} did not become current: {refusal.decode()}"
        )
    return old


def change_facts(
    client: RedisClient, facts: GenerationFacts, changed: GenerationFacts | None
) -> bool:
    """Change the facts of a generation that is not current (None: remove them); return success."""
    keys = (current_generation_key(), generations_key())
    new_text = "" if changed is None else changed.to_json()
    with redis_errors_from(_WHAT):
        done = client.eval(
            CHANGE, len(keys), *keys, str(facts.generation), facts.to_json(), new_text
        )
    return bool(done)


def facts_are(client: RedisClient, facts: GenerationFacts) -> bool:
    """Return whether a generation still has these facts and is not current."""
    if current_number(client) == facts.generation:
        return False
    with redis_errors_from(_WHAT):
        text = client.hget(generations_key(), str(facts.generation))
    return text == facts.to_json().encode()


def require_complete(client: RedisClient, generation: int) -> GenerationFacts:
    """Return the facts of a complete generation; ask before and after reading its sets."""
    for facts in all_generations(client):
        if facts.generation == generation and facts.state is GenerationState.COMPLETE:
            return facts
    raise GenerationError(f"generation {generation} is not complete in Redis, or no longer there")


@dataclass(frozen=True, slots=True, eq=False)
class SubscriptionChanges:
    """What a generation changed: members gained and lost, and whether a reference is left.

    A subscription that is not listed has the members that it had before.
    """

    sub_ids: Int64s
    gained: Int64s
    lost: Int64s
    lacks_references: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return the number of listed subscriptions."""
        return len(self.sub_ids)


def keep_changes(client: RedisClient, generation: int, changes: SubscriptionChanges) -> None:
    """Store the changes before the switch, so that a broker that notices the switch finds them."""
    rows = np.empty(len(changes), PACKED)
    rows["subId"], rows["gained"] = changes.sub_ids, changes.gained
    rows["lost"], rows["lacks"] = changes.lost, changes.lacks_references
    with redis_errors_from(_WHAT):
        client.set(generation_changes_key(generation), rows.tobytes(), ex=KEEP_SECONDS)


def unpacked_changes(content: bytes) -> SubscriptionChanges:
    """Return the changes in the value of their key, for callers with another client."""
    if len(content) % PACKED.itemsize:
        raise GenerationError("the changes of a generation in Redis are broken")
    rows = np.frombuffer(content, PACKED)
    # By one column: comparing whole rows is a hundred times slower.
    rows = rows[np.argsort(rows["subId"], kind="stable")]
    return SubscriptionChanges(
        rows["subId"].astype(np.int64),
        rows["gained"].astype(np.int64),
        rows["lost"].astype(np.int64),
        rows["lacks"],
    )
