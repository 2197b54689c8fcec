-- Takes keys out, unless this server may have forgotten something.
--
-- KEYS: pool, meta; ARGV: owner, list or set, count

local kept = redis.call('HMGET', KEYS[2], 'owner', 'server')
if not kept[1] then
  return { 'new', '', {}, 0 }
end
if kept[1] ~= ARGV[1] then
  return { 'foreign', kept[1], {}, 0 }
end
if string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') ~= kept[2] then
  return { 'doubtful', '', {}, 0 }
end
if ARGV[2] == 'set' then
  return { 'popped', '', redis.call('SPOP', KEYS[1], ARGV[3]), redis.call('SCARD', KEYS[1]) }
end
return { 'popped', '', redis.call('LPOP', KEYS[1], ARGV[3]) or {}, redis.call('LLEN', KEYS[1]) }
