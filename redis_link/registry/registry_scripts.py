"""Changes the registry of subscriptions: each script is one step of one broker.

Every script first checks that the process still runs its broker: a process that another one has
replaced changes nothing. A key of the wrong type is removed: the broker has in memory what it
should hold, and writes it again.

A subId is never given twice. So a set that still names a removed subscription names nobody, and a
generation says with one number which subscriptions it holds: all up to that subId
(docs/decisions/0052).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from redis_link.connection.redis_connection import Word
from redis_link.connection.redis_router import Script, make_script
from schemas.redis_keys import (
    broker_subscriptions_key,
    brokers_key,
    client_subscriptions_key,
    last_sub_id_key,
    name_users_key,
    names_key,
    registry_id_key,
    shared_client_key,
    subscriptions_key,
)
from schemas.subscription import Registration

# The answer of every script to a process that another one has replaced.
TAKEN: Final = b"TAKEN"
# The answer to a registration by a name that no neighborhood has.
UNKNOWN_NAME: Final = b"UNKNOWN"

# KEYS of all scripts: id, counter, subscriptions, the broker's subIds, brokers; of most: client; of
# a registration by name: the users of the name.
# ARGV of all scripts: the broker, our token.
_BEGIN: Final = """
local function is_there(key, kind)
  local found = redis.call('TYPE', key)['ok']
  if found ~= kind and found ~= 'none' then redis.call('UNLINK', key) end
  return found == kind
end
local function is_taken()
  is_there(KEYS[5], 'hash')
  redis.call('HSETNX', KEYS[5], ARGV[1], ARGV[2])
  return redis.call('HGET', KEYS[5], ARGV[1]) ~= ARGV[2]
end
"""

# ARGV: …, '1' to take the broker over, '1' when subscriptions are in force. Returns 'TAKEN', or the
# id of the registry; '' when something of it is lost. New numbers are above all known ones.
OPEN: Final = make_script(
    _BEGIN
    + """
if ARGV[3] == '1' then
  is_there(KEYS[5], 'hash')
  redis.call('HSET', KEYS[5], ARGV[1], ARGV[2])
end
if is_taken() then return 'TAKEN' end
local has_id = is_there(KEYS[1], 'string')
local has_counter = is_there(KEYS[2], 'string') and tonumber(redis.call('GET', KEYS[2]))
local has_all = is_there(KEYS[3], 'hash')
has_all = is_there(KEYS[4], 'set') and has_all
if has_id and has_counter and (has_all or ARGV[4] ~= '1') then return redis.call('GET', KEYS[1]) end
redis.call('UNLINK', KEYS[1])
local highest = has_counter or 0
for _, number in ipairs(redis.call('HKEYS', KEYS[3])) do
  highest = math.max(highest, tonumber(number) or 0)
end
redis.call('SET', KEYS[2], string.format('%.0f', highest))
return ''
"""
)
# KEYS: …, names, if its name must be there. ARGV: …, nsid, registration, the registry that we know,
# name. Returns the subId; '' when the registry is another one: its numbers are not ours. The same
# registration again gets the same number. The subscription that had the nsid stays registered
# until it is forgotten: it is in force until then.
REGISTER: Final = make_script(
    _BEGIN
    + """
if is_taken() then return 'TAKEN' end
if redis.call('GET', KEYS[1]) ~= ARGV[5] or redis.call('EXISTS', KEYS[2]) == 0 then return '' end
if KEYS[8] and redis.call('HEXISTS', KEYS[8], ARGV[6]) == 0 then return 'UNKNOWN' end
is_there(KEYS[6], 'hash')
local number = redis.call('HGET', KEYS[6], ARGV[3])
if not number or redis.call('HGET', KEYS[3], number) ~= ARGV[4] then
  number = tostring(redis.call('INCR', KEYS[2]))
  redis.call('HSET', KEYS[3], number, ARGV[4])
  redis.call('HSET', KEYS[6], ARGV[3], number)
end
redis.call('SADD', KEYS[4], number)
if KEYS[7] then redis.call('SADD', KEYS[7], number) end
return number
"""
)
# ARGV: …, nsid, registration, subId. Writes what a registry may have lost. Returns '1' when it was
# lost, '0' when it was there, '-1' when the number belongs to another subscription.
PUT_BACK: Final = make_script(
    _BEGIN
    + """
if is_taken() then return 'TAKEN' end
is_there(KEYS[3], 'hash')
is_there(KEYS[4], 'set')
is_there(KEYS[6], 'hash')
if tonumber(redis.call('GET', KEYS[2]) or '0') < tonumber(ARGV[5]) then
  redis.call('SET', KEYS[2], ARGV[5])
end
local was_lost = redis.call('HSETNX', KEYS[3], ARGV[5], ARGV[4])
if redis.call('HGET', KEYS[3], ARGV[5]) ~= ARGV[4] then return '-1' end
redis.call('HSET', KEYS[6], ARGV[3], ARGV[5])
redis.call('SADD', KEYS[4], ARGV[5])
if KEYS[7] then redis.call('SADD', KEYS[7], ARGV[5]) end
return tostring(was_lost)
"""
)
# KEYS: …, client, then the users of its name, or the subIds of other brokers. ARGV: …, nsid, subId,
# '1' for one by name. The nsid may stand for another subscription by now. Another broker may have
# registered the same subscription: earlier releases gave both the same number.
FORGET: Final = make_script(
    _BEGIN
    + """
if is_taken() then return 'TAKEN' end
redis.call('SREM', KEYS[4], ARGV[4])
is_there(KEYS[6], 'hash')
if ARGV[5] == '1' then redis.call('SREM', KEYS[7], ARGV[4]) end
for at = 7 + ARGV[5], #KEYS do
  if redis.call('SISMEMBER', KEYS[at], ARGV[4]) == 1 then return '0' end
end
redis.call('HDEL', KEYS[3], ARGV[4])
if redis.call('HGET', KEYS[6], ARGV[3]) == ARGV[4] then redis.call('HDEL', KEYS[6], ARGV[3]) end
return '1'
"""
)


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script with its keys and arguments, for whichever client runs it."""

    script: Script
    keys: list[str]
    words: list[Word]


@dataclass(frozen=True, slots=True)
class BrokerCalls:
    """Makes the calls by which one process changes the registrations of its broker."""

    broker: str
    token: str

    def open(self, *, takes_over: bool, has_any: bool) -> ScriptCall:
        """Ask for the id of the registry; empty when something of it is lost."""
        return self._call(OPEN, [], int(takes_over), int(has_any))

    def register(
        self, registration: Registration, registry: str, *, is_restored: bool = False
    ) -> ScriptCall:
        """Ask for the subId of a registration; empty when the registry is another one.

        UNKNOWN_NAME when its name is removed, unless it is in force already, and restored.
        """
        keys = self._keys_of(registration)
        if registration.name and not is_restored:
            keys.append(names_key())
        words = (registration.nsid, registration.to_json(), registry, registration.name)
        return self._call(REGISTER, keys, *words)

    def put_back(self, registration: Registration, sub_id: int) -> ScriptCall:
        """Write a registration that may be lost; 1: it was, 0: it is there, -1: another has it."""
        keys = self._keys_of(registration)
        return self._call(PUT_BACK, keys, registration.nsid, registration.to_json(), sub_id)

    def forget(
        self, registration: Registration, sub_id: int, other_brokers: list[str]
    ) -> ScriptCall:
        """Remove a registration of this broker, or one of an earlier release, which names none.

        That one may be another broker's too: ``other_brokers`` are the keys of their subIds.
        """
        if registration.broker:
            keys = self._keys_of(registration)
        else:
            keys = [shared_client_key(registration.client_id), *other_brokers]
        return self._call(FORGET, keys, registration.nsid, sub_id, int(bool(registration.name)))

    def _keys_of(self, registration: Registration) -> list[str]:
        keys = [client_subscriptions_key(self.broker, registration.client_id)]
        return [*keys, name_users_key(registration.name)] if registration.name else keys

    def _call(self, script: Script, keys: list[str], *words: Word) -> ScriptCall:
        common = [
            registry_id_key(), last_sub_id_key(), subscriptions_key(),
            broker_subscriptions_key(self.broker), brokers_key(),
        ]  # fmt: skip
        return ScriptCall(script, [*common, *keys], [self.broker, self.token, *words])
