#!lua flags=allow-oom
-- Begins the rebuild of a gate: meta becomes loading(E). Refused if meta knows E or a later epoch. A gate that is
-- loading(E) stays as it is: its rebuilder asks once more before it loads, since the gate may have been lost meanwhile.
-- A pause that was made at the gate stays: MySQL need not know it yet.
-- The outbox stays, since its claims were accepted and land under their own epoch.
-- KEYS  1 meta   2 users:<E>   3 inflight:<E>   4 queued:<E>   5 outbox
-- ARGV  1 epoch E   2 run of the connection   3 highest epoch that can be one: MySQL's is E, and rises by steps
-- Returns {1, epoch that meta knew before, '' none} begun, {0, ''} refused
-- include numbers
-- An outbox of another type holds no claims, and would refuse them in every epoch.
local function drop_foreign_outbox()
    if redis.call('TYPE', KEYS[5]).ok ~= 'stream' then redis.call('UNLINK', KEYS[5]) end
end

-- An unreadable meta, of whatever type, counts as no gate.
local meta = redis.pcall('HMGET', KEYS[1], 'epoch', 'phase', 'run', 'halt')
local known = not meta.err and whole(meta[1])
if known and known >= tonumber(ARGV[1]) and known <= tonumber(ARGV[3]) then
    local of_this = meta[1] == ARGV[1] and meta[2] == 'loading'
    if not of_this then return { 0, '' } end
    if meta[3] == ARGV[2] then
        drop_foreign_outbox()
        return { 1, '' }
    end
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
drop_foreign_outbox()
redis.call('HSET', KEYS[1], 'phase', 'loading', 'epoch', ARGV[1], 'run', ARGV[2], 'users', 0)
if meta[4] then redis.call('HSET', KEYS[1], 'halt', meta[4]) end
return { 1, known and meta[1] or '' }
