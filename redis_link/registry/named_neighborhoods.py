"""Reads and changes the named neighborhoods of a Redis; each script is one step, and tells brokers.

The edition says which definitions are in force. It is ``ID:NUMBER``; every change counts the number
up. It lies in the hash of the definitions, so that both are lost together: with another ID, or
without an edition, a broker knows that definitions were lost, and puts back those that it uses.
"""

from __future__ import annotations

import time
import uuid
from typing import Any, Final

from redis_link.connection.client import RedisClient
from redis_link.connection.failures import redis_errors_from
from redis_link.connection.redis_router import Script, make_script
from schemas.errors import NamedNeighborhoodError, NameInUseError
from schemas.language.neighborhood import Neighborhood, neighborhood_hash
from schemas.named_neighborhood import MOST_NAMES, NamedNeighborhood, checked_name
from schemas.redis_keys import NAMES_CHANNEL, name_users_key, names_key

# No name has this form.
EDITION_FIELD: Final = "#edition"

FULL: Final = b"FULL"
NOT_THERE: Final = b"NOT THERE"
IN_USE: Final = b"IN USE"

# KEYS of all scripts: names. ARGV of all: the channel, an ID for a first edition.
_BEGIN: Final = """
local function count_up()
  local edition = redis.call('HGET', KEYS[1], '#edition') or (ARGV[2] .. ':0')
  local id, number = string.match(edition, '^(.*):(%d+)$')
  edition = (id or ARGV[2]) .. ':' .. string.format('%.0f', (tonumber(number) or 0) + 1)
  redis.call('HSET', KEYS[1], '#edition', edition)
  redis.call('PUBLISH', ARGV[1], edition)
end
"""
# ARGV: …, name, definition, how many names there may be. Returns 1 when the name is new, 0 when it
# stood for something else, 'FULL' when there are too many.
ADD: Final = make_script(
    _BEGIN
    + """
local is_new = redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0
local others = redis.call('HLEN', KEYS[1]) - redis.call('HEXISTS', KEYS[1], '#edition')
if is_new and others >= tonumber(ARGV[5]) then return 'FULL' end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
count_up()
return is_new and 1 or 0
"""
)
# KEYS: …, the users of the name. ARGV: …, name, '1' to remove one that is used. Returns an answer
# and the number of users.
REMOVE: Final = make_script(
    _BEGIN
    + """
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then return {'NOT THERE', 0} end
local users = redis.call('SCARD', KEYS[2])
if users > 0 and ARGV[4] ~= '1' then return {'IN USE', users} end
redis.call('HDEL', KEYS[1], ARGV[3])
count_up()
return {'', users}
"""
)
# ARGV: …, then names and definitions that may be lost. Those that are there stay as they are.
PUT_BACK_NAMES: Final = make_script(
    _BEGIN
    + """
local lost = 0
for at = 3, #ARGV, 2 do lost = lost + redis.call('HSETNX', KEYS[1], ARGV[at], ARGV[at + 1]) end
if lost > 0 or redis.call('HEXISTS', KEYS[1], '#edition') == 0 then count_up() end
return lost
"""
)


_WHAT: Final = "(the named neighborhoods)"


def add_name(client: RedisClient, name: str, neighborhood: Neighborhood) -> bool:
    """Give a neighborhood a name; return whether the name is new, or stood for another one."""
    definition = NamedNeighborhood(
        checked_name(name), neighborhood.to_json(), neighborhood_hash(neighborhood), time.time()
    )
    answer = _run(client, ADD, [names_key()], name, definition.to_json(), MOST_NAMES)
    if answer == FULL:
        raise NamedNeighborhoodError(
            f"there are {MOST_NAMES:,} named neighborhoods, and no more are allowed: remove one"
        )
    return bool(answer)


def remove_name(client: RedisClient, name: str, *, forced: bool) -> int:
    """Remove a name; return how many subscriptions used it. A used one must be forced."""
    keys = [names_key(), name_users_key(checked_name(name))]
    answer, users = _run(client, REMOVE, keys, name, int(forced))
    if answer == NOT_THERE:
        raise _unknown(name)
    if answer == IN_USE:
        many = "1 subscription uses" if users == 1 else f"{users:,} subscriptions use"
        raise NameInUseError(
            f"{many} the neighborhood {name!r}: with --force they are left without members"
        )
    return int(users)


def all_names(client: RedisClient) -> list[NamedNeighborhood]:
    """Return all named neighborhoods, by name."""
    with redis_errors_from(_WHAT):
        found: Any = client.hgetall(names_key())
    named = {field.decode(): text for field, text in found.items()}
    named.pop(EDITION_FIELD, None)
    return [NamedNeighborhood.from_json(name, text) for name, text in sorted(named.items())]


def find_name(client: RedisClient, name: str) -> NamedNeighborhood:
    """Return the neighborhood of this name; NamedNeighborhoodError when there is none."""
    with redis_errors_from(_WHAT):
        text: Any = client.hget(names_key(), checked_name(name))
    if text is None:
        raise _unknown(name)
    return NamedNeighborhood.from_json(name, text)


def users_of(client: RedisClient, name: str) -> int:
    """Return the number of subscriptions, of all brokers, that use the name."""
    with redis_errors_from(_WHAT):
        return int(client.scard(name_users_key(name)))


def _run(client: RedisClient, script: Script, keys: list[str], *words: str | int) -> Any:
    arguments = [NAMES_CHANNEL, uuid.uuid4().hex, *map(str, words)]
    with redis_errors_from(_WHAT):
        return client.eval(script.text, len(keys), *keys, *arguments)


def _unknown(name: str) -> NamedNeighborhoodError:
    return NamedNeighborhoodError(f"no neighborhood is named {name!r}: 'spaps neighborhood list'")
