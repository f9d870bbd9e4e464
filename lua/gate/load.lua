#!lua
-- Loads users' entries into a gate, only while it is exactly loading(E) in this connection's run of Redis.
-- KEYS  1 meta   2 users:<E>
-- ARGV  1 epoch E   2 run   then pairs: user, entry as lua/gate/includes/entry.lua lays it out
-- Returns 1 loaded, 0 refused
local meta = redis.call('HMGET', KEYS[1], 'phase', 'epoch', 'run')
if meta[1] ~= 'loading' or meta[2] ~= ARGV[1] or meta[3] ~= ARGV[2] then return 0 end
local added = redis.call('HSET', KEYS[2], unpack(ARGV, 3))
redis.call('HINCRBY', KEYS[1], 'users', added)
return 1
