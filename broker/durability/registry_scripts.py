"""The scripts by which a broker changes the registry of all subscriptions, each in one step."""

from __future__ import annotations

from typing import Final

from broker.durability.scripts import make_script

# KEYS: id, counter, subscriptions, client, broker. ARGV: nsid, registration, the registry that we
# know. Gives the subId, '' when the registry is another: its numbers are not ours. The same again
# gives the same number. What the nsid stood for stays registered until it is forgotten: it is in
# force until its replacement is.
REGISTER: Final = make_script(
    """
if redis.call('GET', KEYS[1]) ~= ARGV[3] then return '' end
local old = redis.call('HGET', KEYS[4], ARGV[1])
if old and redis.call('HGET', KEYS[3], old) == ARGV[2] then
  redis.call('SADD', KEYS[5], old)
  return old
end
local new = tostring(redis.call('INCR', KEYS[2]))
redis.call('HSET', KEYS[3], new, ARGV[2])
redis.call('HSET', KEYS[4], ARGV[1], new)
redis.call('SADD', KEYS[5], new)
return new
"""
)
# KEYS: as above. ARGV: nsid, registration, subId. Puts back what an emptied registry has lost:
# 1 when it was lost, 0 when it is there, -1 when the number is somebody else's.
PUT_BACK: Final = make_script(
    """
if tonumber(redis.call('GET', KEYS[2]) or '0') < tonumber(ARGV[3]) then
  redis.call('SET', KEYS[2], ARGV[3])
end
local was_lost = redis.call('HSETNX', KEYS[3], ARGV[3], ARGV[2])
if redis.call('HGET', KEYS[3], ARGV[3]) ~= ARGV[2] then return -1 end
redis.call('HSET', KEYS[4], ARGV[1], ARGV[3])
redis.call('SADD', KEYS[5], ARGV[3])
return was_lost
"""
)
# KEYS: subscriptions, client, broker. ARGV: nsid, subId. The nsid may be another one's by now.
FORGET: Final = make_script(
    """
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('SREM', KEYS[3], ARGV[2])
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[2], ARGV[1]) end
return 1
"""
)
