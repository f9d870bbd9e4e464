#!lua
-- Loads users who have rejected claims into a gate, only while it is exactly loading(E) in this connection's run of
-- Redis. MySQL must be checked for their keys. A user who was loaded with coupons already says so and stays.
-- KEYS  1 meta   2 users:<E>
-- ARGV  1 epoch E   2 run   3 entry of a user without coupons, as lua/gate/includes/entry.lua lays it out   then users
-- Returns 1 loaded, 0 refused
local meta = redis.call('HMGET', KEYS[1], 'phase', 'epoch', 'run')
if meta[1] ~= 'loading' or meta[2] ~= ARGV[1] or meta[3] ~= ARGV[2] then return 0 end
local added = 0
for at = 4, #ARGV do
    added = added + redis.call('HSETNX', KEYS[2], ARGV[at], ARGV[3])
end
redis.call('HINCRBY', KEYS[1], 'users', added)
return 1
