#!lua flags=allow-oom
-- Removes the leftovers of a past epoch: the gate is gone, or in a later epoch. They are never read again, since an
-- epoch never begins twice. Atomic: a gate that is loading or open in this very epoch keeps its keys.
-- KEYS  1 meta   2 users:<epoch>   3 inflight:<epoch>   4 queued:<epoch>
-- ARGV  1 epoch
-- Returns the number of removed keys
local epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch'))
if epoch and epoch <= tonumber(ARGV[1]) then return 0 end
return redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
