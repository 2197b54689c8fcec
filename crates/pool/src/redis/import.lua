-- Adds keys that were made elsewhere, each once in the life of the pool.
--
-- KEYS: pool, meta, imported (set); ARGV: owner, era, list or set, keys
--
-- Returns which ones were new, or nil if the era is over.

local kept = redis.call('HMGET', KEYS[2], 'owner', 'era', 'server')
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if kept[1] ~= ARGV[1] or kept[2] ~= ARGV[2] or kept[3] ~= server then
  return false
end
local add = ARGV[3] == 'set' and 'SADD' or 'RPUSH'
local added = {}
for at = 4, #ARGV do
  -- The first write is the one that a full or read-only server refuses.
  added[#added + 1] = redis.call('SADD', KEYS[3], ARGV[at])
  if added[#added] == 1 then
    redis.call(add, KEYS[1], ARGV[at])
    redis.call('HSET', KEYS[2], 'imported', '1')
  end
end
return added
