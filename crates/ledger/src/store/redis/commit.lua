-- Applies writes if the server and every guarded row are what they were.
--
-- KEYS: rows (hash: key -> "version value"), order (sorted set of keys, all of score 0), versions (counter)
-- ARGV: incarnation, n, n * (key, version or ""), n, n * (key, value), n, n * key to remove
--
-- Rows and versions are text to this script: a number of the ledger never becomes a Lua number, which is a
-- double, nor a score. The counter is raised by INCR and read back as text.
--
-- Returns whether the writes were applied, and how many replicas follow.

local replication = redis.call('INFO', 'replication')
if string.match(replication, 'master_replid:(%x+)') ~= ARGV[1] then
  return { 0, 0 }
end

local at = 1
local function take()
  at = at + 1
  return ARGV[at]
end

for _ = 1, tonumber(take()) do
  local key, version = take(), take()
  local row = redis.call('HGET', KEYS[1], key)
  local found = row and string.match(row, '^(%d+) ') or ''
  if found ~= version then
    return { 0, 0 }
  end
end

local puts = tonumber(take())
if puts > 0 then
  -- The first write is the one that a full or read-only server refuses.
  redis.call('INCR', KEYS[3])
  local version = redis.call('GET', KEYS[3])
  for _ = 1, puts do
    local key, value = take(), take()
    redis.call('ZADD', KEYS[2], 0, key)
    redis.call('HSET', KEYS[1], key, version .. ' ' .. value)
  end
end

for _ = 1, tonumber(take()) do
  local key = take()
  redis.call('ZREM', KEYS[2], key)
  redis.call('HDEL', KEYS[1], key)
end

local _, replicas = string.gsub(replication, 'state=online', '')
return { 1, replicas }
