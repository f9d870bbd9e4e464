#!lua
-- Opens a loaded gate: only from exactly loading(E), with the facts read from MySQL after E began.
-- KEYS  1 meta
-- ARGV  1 epoch E   2 run   3 template version   4 state   5 starts_ms   6 ends_ms   7 limit
--       8 stock   9 last movement
-- Returns 1 opened, 0 refused
local meta = redis.call('HMGET', KEYS[1], 'phase', 'epoch', 'run')
if meta[1] ~= 'loading' or meta[2] ~= ARGV[1] or meta[3] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'phase', 'open', 'version', ARGV[3], 'state', ARGV[4],
    'starts', ARGV[5], 'ends', ARGV[6], 'limit', ARGV[7], 'stock', ARGV[8], 'movement', ARGV[9])
return 1
