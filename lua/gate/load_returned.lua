#!lua
-- Frees numbers and sets or counts lapses in a gate that is being loaded, only while it is exactly loading(E) in this
-- connection's run of Redis. Atomic: all users of a call change together.
-- KEYS  1 meta   2 users:<E>
-- ARGV  1 epoch E   2 run   then what users get back, as lua/gate/includes/returned.lua takes it
-- Returns 1 loaded, 0 refused
-- include entry
-- include returned
local meta = redis.call('HMGET', KEYS[1], 'phase', 'epoch', 'run')
if meta[1] ~= 'loading' or meta[2] ~= ARGV[1] or meta[3] ~= ARGV[2] then return 0 end
give_back(KEYS[1], KEYS[2], 3, LOOK_IN_MYSQL)
return 1
