"""Changes the named neighborhoods: each script is one step, and tells brokers of it.

The edition says which definitions are in force. It is ``ID:NUMBER``; every change counts the number
up. It lies in the hash of the definitions, so that both are lost together: with another ID, or
without an edition, a broker knows that definitions were lost, and puts back those that it uses.
"""

from __future__ import annotations

from typing import Final

from redis_link.connection.redis_router import make_script

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
