#!lua flags=allow-oom
-- Settles landed admissions: pending or queued becomes landed, and the in-flight or queued entries are removed. Each
-- takes effect once; a no-op under another epoch or run. Atomic: entries and sets change together.
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
    local left, excess = {}, #entry.requests - kept
    for _, request in ipairs(entry.requests) do
        if excess > 0 and request.state == 'l' then
            excess = excess - 1
            entry.flags = LOOK_IN_MYSQL
            if is_above(request.id, entry.floor) then entry.floor = request.id end
        else
            table.insert(left, request)
        end
    end
    entry.requests = left
end

-- Marks the requests of these ids as landed. Returns how many were pending or queued.
local function settle(entry, ids)
    local settled = 0
    for _, request in ipairs(entry.requests) do
        if ids[request.id] and request.state ~= 'l' then
            request.state = 'l'
            settled = settled + 1
        end
    end
    if settled > 0 then trim(entry) end
    return settled
end

-- A few commands for all: one for each claim costs more than the claim's own work. Each user's entry is decoded once,
-- however many of the claims are theirs.
local users, members, of_user = {}, {}, {}
for at = 3, #ARGV, 2 do
    local user, id = ARGV[at], ARGV[at + 1]
    if not of_user[user] then
        of_user[user] = {}
        table.insert(users, user)
    end
    of_user[user][id] = true
    table.insert(members, id .. ':' .. user)
end
if #users == 0 then return 0 end

local texts, settled, changed = redis.call('HMGET', KEYS[2], unpack(users)), 0, {}
for index, user in ipairs(users) do
    local entry = texts[index] and decode(texts[index], KEYS[1], user)
    local of_entry = entry and settle(entry, of_user[user]) or 0
    if of_entry > 0 then
        settled = settled + of_entry
        table.insert(changed, user)
        table.insert(changed, encode(entry))
    end
end
if settled > 0 then redis.call('HSET', KEYS[2], unpack(changed)) end
redis.call('ZREM', KEYS[3], unpack(members))
redis.call('ZREM', KEYS[4], unpack(members))
return settled
