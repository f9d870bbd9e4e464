#!lua flags=allow-oom
-- Begins the rebuild of a gate: meta becomes loading(E). Refused if meta knows E or a later epoch. The outbox stays,
-- since its claims were accepted and land under their own epoch.
-- KEYS  1 meta   2 users:<E>   3 inflight:<E>   4 queued:<E>   5 outbox
-- ARGV  1 epoch E   2 run of the connection
-- Returns 1 begun, 0 refused
-- An unreadable meta, of whatever type, counts as no gate.
local known = redis.pcall('HGET', KEYS[1], 'epoch')
known = type(known) == 'string' and tonumber(known)
if known and known >= tonumber(ARGV[1]) then return 0 end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
-- An outbox of another type holds no claims, and would refuse them in every epoch.
if redis.call('TYPE', KEYS[5]).ok ~= 'stream' then redis.call('UNLINK', KEYS[5]) end
redis.call('HSET', KEYS[1], 'phase', 'loading', 'epoch', ARGV[1], 'run', ARGV[2], 'users', 0)
return 1
