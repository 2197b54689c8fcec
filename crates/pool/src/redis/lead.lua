-- Chooses the node that fills, for a while. It saves work; order is kept by `next`.
--
-- KEYS: filler; ARGV: node, milliseconds

local leader = redis.call('GET', KEYS[1])
if leader and leader ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
