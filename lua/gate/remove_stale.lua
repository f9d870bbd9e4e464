#!lua flags=allow-oom
-- Removes the leftovers of a past epoch: the gate is gone, or in a later epoch. They are never read again, since an
-- epoch never begins twice. Atomic: a gate that is loading or open in this very epoch keeps its keys.
-- KEYS  1 meta   2 users:<epoch>   3 inflight:<epoch>   4 queued:<epoch>
-- ARGV  1 epoch
-- Returns the number of removed keys
-- include numbers
-- An unreadable meta, of whatever type, counts as no gate: no script reads these keys by it.
local known = redis.pcall('HGET', KEYS[1], 'epoch')
local epoch = type(known) == 'string' and whole(known)
if epoch and epoch <= tonumber(ARGV[1]) then return 0 end
return redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
