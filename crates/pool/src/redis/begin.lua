-- Begins an era: what lies in the pool is out of reach from here on.
--
-- KEYS: pool, meta, aside; ARGV: owner, the last era or '', the new one, next

local kept = redis.call('HMGET', KEYS[2], 'owner', 'era', 'imported')
if kept[1] and kept[1] ~= ARGV[1] then
  return { 'foreign', kept[1], 0 }
end
if (kept[2] or '') ~= ARGV[2] then
  return { 'overtaken', '', 0 }
end
local kind = redis.call('TYPE', KEYS[1]).ok
local rows = 0
if kind == 'list' then
  rows = redis.call('LLEN', KEYS[1])
elseif kind == 'set' then
  rows = redis.call('SCARD', KEYS[1])
elseif kind ~= 'none' then
  return { 'strange', kind, 0 }
end
-- Nothing of ours was ever pushed: whatever is there is somebody else's.
if rows > 0 and not kept[1] and ARGV[4] == '0' then
  return { 'strange', kind, rows }
end

-- The first write is the one that a full or read-only server refuses.
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
redis.call('HSET', KEYS[2], 'owner', ARGV[1], 'era', ARGV[3], 'next', ARGV[4], 'server', server, 'process', process)
if rows == 0 then
  return { 'begun', '', 0 }
end
if kept[1] and not kept[3] then
  redis.call('UNLINK', KEYS[1])
  return { 'begun', '', rows }
end
-- Imported keys cannot be made again, so they are not thrown away.
redis.call('HDEL', KEYS[2], 'imported')
redis.call('RENAME', KEYS[1], KEYS[3])
return { 'aside', KEYS[3], rows }
