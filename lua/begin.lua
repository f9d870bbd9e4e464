#!lua flags=allow-oom
-- Begins the rebuild of a gate: meta becomes loading(E). Refused if meta knows E or a later epoch.
-- KEYS  1 meta   2 users:<E>   3 inflight:<E>
-- ARGV  1 epoch E   2 run of the connection
-- Returns 1 begun, 0 refused
-- An unreadable meta, of whatever type, counts as no gate.
local known = redis.pcall('HGET', KEYS[1], 'epoch')
known = type(known) == 'string' and tonumber(known)
if known and known >= tonumber(ARGV[1]) then return 0 end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], 'phase', 'loading', 'epoch', ARGV[1], 'run', ARGV[2], 'users', 0)
return 1
