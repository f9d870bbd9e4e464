#!lua flags=allow-oom
-- Records that something in a gate is unreadable, as `includes/entry.lua` does for an entry. The keeper then begins a
-- new epoch, which is loaded from MySQL. Atomic: a gate that is gone or has another epoch meanwhile is not marked.
-- KEYS  1 meta
-- ARGV  1 epoch   2 what cannot be read
-- Returns 1 marked, 0 the gate is absent or of another epoch
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'unreadable', ARGV[2])
return 1
