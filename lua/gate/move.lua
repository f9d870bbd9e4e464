#!lua flags=allow-oom
-- Applies one stock movement to the gate: each one once, in the order of their numbers. A cut may make the stock
-- negative; MySQL then refuses the admissions in flight that exceed it. A return also frees users' numbers and counts
-- their lapses. Atomic: the stock, the numbers and the number of the last movement change together, so a repeated
-- movement is recognized as contained, and does nothing.
-- KEYS  1 meta   2 users:<epoch>
-- ARGV  1 epoch the caller knows   2 run of the connection   3 seq   4 change of the stock
--       then what users get back, as lua/gate/includes/returned.lua takes it
-- Returns {code, ...}:
--   0 APPLIED stock   1 ALREADY   2 GAP last   3 NOT_LOADED   4 OTHER_EPOCH epoch
-- include entry
-- include numbers
-- include returned
local APPLIED, ALREADY, GAP, NOT_LOADED, OTHER_EPOCH = 0, 1, 2, 3, 4

local meta = redis.call('HMGET', KEYS[1], 'phase', 'run', 'epoch', 'movement', 'stock', 'users')
if meta[1] ~= 'open' or meta[2] ~= ARGV[2] then return { NOT_LOADED } end
if meta[3] ~= ARGV[1] then
    if not whole(meta[3]) then return { NOT_LOADED } end
    return { OTHER_EPOCH, meta[3] }
end

local seq, last = tonumber(ARGV[3]), whole(meta[4])
-- All of them before the first write.
if not (last and whole(meta[5]) and whole(meta[6])) then return { NOT_LOADED } end
if seq <= last then return { ALREADY } end
if seq > last + 1 then return { GAP, meta[4] } end
redis.call('HSET', KEYS[1], 'movement', ARGV[3])
give_back(KEYS[1], KEYS[2], 5, 0)
return { APPLIED, redis.call('HINCRBY', KEYS[1], 'stock', ARGV[4]) }
