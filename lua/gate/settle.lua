#!lua flags=allow-oom
-- Settles landed admissions: pending or queued becomes landed, and the in-flight or queued entries are removed. Each
-- takes effect once; a no-op under another epoch or run. Atomic: entries and sets change together.
-- KEYS  1 meta   2 users:<epoch>   3 inflight:<epoch>   4 queued:<epoch>
-- ARGV  1 epoch   2 run   then pairs: user, claim id
-- Returns the number of admissions settled; -1 under another epoch or run
-- include entry
-- include numbers
local REQUESTS_KEPT, LIMIT_MAX = 32, 255 -- or as many as the limit; MySQL has the older ones

local meta = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'limit')
if meta[1] ~= ARGV[1] or meta[2] ~= ARGV[2] then return -1 end
local kept = math.max(math.min(whole(meta[3]) or 0, LIMIT_MAX), REQUESTS_KEPT)

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

-- Marks the request as landed. Returns whether it was pending or queued.
local function settle(entry, id)
    for _, request in ipairs(entry.requests) do
        if request.id == id and request.state ~= 'l' then
            request.state = 'l'
            trim(entry)
            return true
        end
    end
    return false
end

-- A few commands for all: one for each claim costs more than the claim's own work.
local users, members = {}, {}
for at = 3, #ARGV, 2 do
    local user = ARGV[at]
    table.insert(users, user)
    table.insert(members, ARGV[at + 1] .. ':' .. user)
end
if #users == 0 then return 0 end

-- Each user's entry is decoded and encoded once, however many of the claims are theirs.
local texts, settled, changed = redis.call('HMGET', KEYS[2], unpack(users)), 0, {}
local entries, settled_of = {}, {}
for index, user in ipairs(users) do
    if entries[user] == nil then
        entries[user] = texts[index] and decode(texts[index], KEYS[1], user) or false
    end
    if entries[user] and settle(entries[user], ARGV[2 + 2 * index]) then
        settled = settled + 1
        settled_of[user] = entries[user]
    end
end
for user, entry in pairs(settled_of) do
    table.insert(changed, user)
    table.insert(changed, encode(entry))
end
if settled > 0 then redis.call('HSET', KEYS[2], unpack(changed)) end
redis.call('ZREM', KEYS[3], unpack(members))
redis.call('ZREM', KEYS[4], unpack(members))
return settled
