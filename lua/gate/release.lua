#!lua flags=allow-oom
-- Releases an admission that will never land: gives back exactly its numbers and its stock. Takes effect once; a no-op
-- under another epoch or run, and for a landed request. The user's entry stays, otherwise HLEN(users) would fall below
-- meta's count. A queued request was rejected, and MySQL stores the rejection under its key, so the entry says from now
-- on that MySQL must be checked. Atomic: stock, numbers and marker change together.
-- KEYS  1 meta   2 users:<epoch>   3 inflight:<epoch>   4 queued:<epoch>
-- ARGV  1 epoch   2 run   3 user   4 claim id
-- Returns 1 given back, 0 nothing to give back, -1 under another epoch or run
-- include entry
-- include numbers
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'stock')
if meta[1] ~= ARGV[1] or meta[2] ~= ARGV[2] then return -1 end
-- A gate with an unreadable stock counts as lost: the next epoch reads the stock from MySQL.
local takes_back = whole(meta[3])

local user, id, released = ARGV[3], ARGV[4], 0
local text = redis.call('HGET', KEYS[2], user)
if text then
    local entry = decode(text, KEYS[1], user)
    for at, request in ipairs(entry and entry.requests or {}) do
        if request.id == id and request.state ~= 'l' then
            for index = 1, #request.numbers do
                local number = string.byte(request.numbers, index)
                entry.taken = string.sub(entry.taken, 1, number - 1) .. '0'
                    .. string.sub(entry.taken, number + 1)
            end
            if request.state == 'q' then entry.flags = LOOK_IN_MYSQL end
            table.remove(entry.requests, at)
            redis.call('HSET', KEYS[2], user, encode(entry))
            if takes_back then redis.call('HINCRBY', KEYS[1], 'stock', request.quantity) end
            released = 1
            break
        end
    end
end
redis.call('ZREM', KEYS[3], id .. ':' .. user)
redis.call('ZREM', KEYS[4], id .. ':' .. user)
return released
