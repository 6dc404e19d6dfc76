"""The scripts by which a broker changes the registry of all subscriptions, each in one step.

Every script first checks that the process still runs its broker: one that another process has
replaced changes nothing. A key of the wrong type is removed: the broker has in memory what it
should hold, and writes it again.
"""

from __future__ import annotations

from typing import Final

from broker.durability.scripts import make_script

# KEYS of all: id, counter, subscriptions, the broker's subIds, brokers; then of most: client.
# ARGV of all: the broker, our token.
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

# ARGV: …, '1' to take the broker over, '1' when subscriptions are in force. Gives 'TAKEN', or the
# id of the registry; '' when something of it is lost. Numbers go on above all that are known.
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
# ARGV: …, nsid, registration, the registry that we know. Gives the subId, '' when the registry is
# another: its numbers are not ours. The same again gives the same number. What the nsid stood
# for stays registered until it is forgotten: it is in force until its replacement is.
REGISTER: Final = make_script(
    _BEGIN
    + """
if is_taken() then return 'TAKEN' end
if redis.call('GET', KEYS[1]) ~= ARGV[5] or redis.call('EXISTS', KEYS[2]) == 0 then return '' end
is_there(KEYS[6], 'hash')
local old = redis.call('HGET', KEYS[6], ARGV[3])
if old and redis.call('HGET', KEYS[3], old) == ARGV[4] then
  redis.call('SADD', KEYS[4], old)
  return old
end
local new = tostring(redis.call('INCR', KEYS[2]))
redis.call('HSET', KEYS[3], new, ARGV[4])
redis.call('HSET', KEYS[6], ARGV[3], new)
redis.call('SADD', KEYS[4], new)
return new
"""
)
# ARGV: …, nsid, registration, subId. Puts back what a registry has lost: '1' when it was lost, '0'
# when it is there, '-1' when the number is somebody else's.
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
return tostring(was_lost)
"""
)
# KEYS: …, client, then the subIds of other brokers. ARGV: …, nsid, subId. The nsid may be another
# one's by now, and another broker may have registered the same subscription: earlier releases
# gave both the same number.
FORGET: Final = make_script(
    _BEGIN
    + """
if is_taken() then return 'TAKEN' end
redis.call('SREM', KEYS[4], ARGV[4])
is_there(KEYS[6], 'hash')
for at = 7, #KEYS do
  if redis.call('SISMEMBER', KEYS[at], ARGV[4]) == 1 then return '0' end
end
redis.call('HDEL', KEYS[3], ARGV[4])
if redis.call('HGET', KEYS[6], ARGV[3]) == ARGV[4] then redis.call('HDEL', KEYS[6], ARGV[3]) end
return '1'
"""
)
