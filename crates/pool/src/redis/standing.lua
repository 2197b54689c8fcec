-- Says whose pool it is, how far it was filled, and which server this is.
--
-- KEYS: pool, meta (hash)
--
-- Numbers are text to this script: one of the ledger never becomes a Lua number, which is a double.

local info = redis.call('INFO', 'replication')
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local kept = redis.call('HMGET', KEYS[2], 'owner', 'era', 'next', 'server', 'process')
local kind = redis.call('TYPE', KEYS[1]).ok
local rows = 0
if kind == 'list' then
  rows = redis.call('LLEN', KEYS[1])
elseif kind == 'set' then
  rows = redis.call('SCARD', KEYS[1])
end
return { kept[1] and 1 or 0, {
  kept[1] or '', kept[2] or '', kept[3] or '', kind, tostring(rows),
  kept[4] or '', string.match(info, 'master_replid:(%x+)'), string.match(info, 'master_replid2:(%x+)') or '',
  kept[5] or '', process,
} }
