"""Lua scripts that change a broker's durable state, each in one step or not at all.

Redis runs a script alone and, when it is out of memory, refuses it before its first change. Each
script first checks that this process is still the owner, and the number of the last step:

* another owner: another process took over, and this one must not write again;
* no owner, or a number below the last confirmed step: Redis has lost data (it was emptied, or a
  replica took over that lacks our last steps);
* a number at or above the step's own: the step is late. It was sent on a connection that was
  given up, and a later step has overtaken it.
"""

from __future__ import annotations

from typing import Final

from redis_link.connection.redis_router import make_script

DONE: Final = b"OK"
LOST: Final = b"LOST"
TAKEN: Final = b"TAKEN"

_CHECK: Final = """
local known = redis.call('HMGET', KEYS[1], 'owner', 'sequence')
if not known[1] then return 'LOST' end
if known[1] ~= ARGV[1] then return 'TAKEN' end
local sequence = tonumber(known[2] or '')
if not sequence then return 'LOST' end
if sequence < tonumber(ARGV[2]) or sequence >= tonumber(ARGV[3]) then return 'LOST' end
"""


# KEYS: journal, then the keys that change. ARGV: our token, the number of the last confirmed step,
# the number of this step; then for each command its name, the number of its key, the number of
# its words, and the words. EXPECT comes before all commands: when its key does not exist, Redis has
# lost data, and nothing is changed.
STORE: Final = make_script(
    _CHECK
    + """
local at = 4
while at <= #ARGV do
  local last = at + 2 + ARGV[at + 2]
  local key = KEYS[tonumber(ARGV[at + 1])]
  if ARGV[at] ~= 'EXPECT' then
    redis.call(ARGV[at], key, unpack(ARGV, at + 3, last))
  elseif redis.call('EXISTS', key) == 0 then
    return 'LOST'
  end
  at = last + 1
end
redis.call('HSET', KEYS[1], 'sequence', ARGV[3])
return 'OK'
"""
)
# KEYS: journal, lease. ARGV: token and numbers as above, milliseconds, our lease.
RENEW: Final = make_script(
    _CHECK
    + """
redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4])
return 'OK'
"""
)
# KEYS: journal, lease. ARGV: our token, milliseconds, our lease. Renews the lease if we are the
# owner, otherwise does nothing.
EXTEND: Final = make_script(
    """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[2])
return 1
"""
)
# KEYS: journal, lease. ARGV: our token, milliseconds, our lease, a lease whose process is known to
# have ended. Returns the valid lease of another process, or nothing. A value of another type, or
# one that is no lease, counts as none.
CLAIM: Final = make_script(
    """
for at, kind in ipairs({'hash', 'string'}) do
  if redis.call('TYPE', KEYS[at])['ok'] ~= kind then redis.call('UNLINK', KEYS[at]) end
end
local lease = redis.call('GET', KEYS[2])
if lease and not pcall(cjson.decode, lease) then lease = false end
if lease and lease ~= ARGV[3] and lease ~= ARGV[4] then return lease end
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[2])
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
for _, field in ipairs({'sequence', 'edition', 'last_edition'}) do
  if not tonumber(redis.call('HGET', KEYS[1], field) or '') then
    redis.call('HSET', KEYS[1], field, '0')
  end
end
return false
"""
)
# KEYS: journal, lease. ARGV: our token, our lease.
RELEASE: Final = make_script(
    """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
if redis.call('GET', KEYS[2]) == ARGV[2] then redis.call('DEL', KEYS[2]) end
return 1
"""
)

# KEYS: journal, a key of the broker. ARGV: our token, its new value. Returns 0 if we are not owner.
NOTE: Final = make_script(
    """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return 1
"""
)
