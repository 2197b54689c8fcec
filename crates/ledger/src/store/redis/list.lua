-- The rows of a span, in order, as key, row, key, row …
--
-- KEYS: rows, order        ARGV: "up" or "down", first key, key after the last, how many (-1: all)

local keys
if ARGV[1] == 'up' then
  keys = redis.call('ZRANGEBYLEX', KEYS[2], '[' .. ARGV[2], '(' .. ARGV[3], 'LIMIT', 0, ARGV[4])
else
  keys = redis.call('ZREVRANGEBYLEX', KEYS[2], '(' .. ARGV[3], '[' .. ARGV[2], 'LIMIT', 0, ARGV[4])
end

local found = {}
for _, key in ipairs(keys) do
  found[#found + 1] = key
  found[#found + 1] = redis.call('HGET', KEYS[1], key)
end
return found
