#!lua flags=allow-oom
-- Settles landed admissions: pending or queued becomes landed, and the in-flight or queued entries are removed. Each
-- takes effect once; a no-op under another epoch or run. Atomic: entry and set change together.
-- KEYS  1 meta   2 users:<epoch>   3 inflight:<epoch>   4 queued:<epoch>
-- ARGV  1 epoch   2 run   then pairs: user, claim id
-- Returns the number of admissions settled; -1 under another epoch or run
-- include entry
local REQUESTS_KEPT = 32 -- or as many as the limit; MySQL has the older ones

local meta = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'limit')
if meta[1] ~= ARGV[1] or meta[2] ~= ARGV[2] then return -1 end
local kept = math.max(tonumber(meta[3]) or 0, REQUESTS_KEPT)

-- Drops the oldest landed requests beyond that number, never a pending or queued one.
local function trim(entry)
    local at = 1
    while #entry.requests > kept and at <= #entry.requests do
        if entry.requests[at].state == 'l' then
            local dropped = table.remove(entry.requests, at)
            entry.flags = LOOK_IN_MYSQL
            if is_above(dropped.id, entry.floor) then entry.floor = dropped.id end
        else
            at = at + 1
        end
    end
end

local settled = 0
for at = 3, #ARGV, 2 do
    local user, id = ARGV[at], ARGV[at + 1]
    local text = redis.call('HGET', KEYS[2], user)
    if text then
        local entry = decode(text, KEYS[1], user)
        for _, request in ipairs(entry and entry.requests or {}) do
            if request.id == id and request.state ~= 'l' then
                request.state = 'l'
                settled = settled + 1
                trim(entry)
                redis.call('HSET', KEYS[2], user, encode(entry))
                break
            end
        end
    end
    redis.call('ZREM', KEYS[3], id .. ':' .. user)
    redis.call('ZREM', KEYS[4], id .. ':' .. user)
end
return settled
