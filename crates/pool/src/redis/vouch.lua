-- The server changed its replication id and forgot nothing: the pool goes on.
--
-- KEYS: meta; ARGV: the server that was, the server that is

local info = redis.call('INFO', 'replication')
if string.match(info, 'master_replid:(%x+)') ~= ARGV[2] then
  return 0
end
local kept = redis.call('HGET', KEYS[1], 'server')
if kept == ARGV[1] then
  redis.call('HSET', KEYS[1], 'server', ARGV[2], 'process', string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'))
  return 1
end
-- Another node vouched first.
return kept == ARGV[2] and 1 or 0
