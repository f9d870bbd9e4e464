#!lua flags=allow-oom
-- Leaves word that something in a gate cannot be read, as `includes/entry.lua` does for an entry: the keeper begins a new
-- epoch, which is loaded from MySQL. Atomic: a gate that is gone or of another epoch meanwhile gets no word.
-- KEYS  1 meta
-- ARGV  1 epoch   2 what cannot be read
-- Returns 1 word is left, 0 the gate is absent or of another epoch
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'unreadable', ARGV[2])
return 1
