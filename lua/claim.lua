#!lua
-- Admits or refuses one claim. Atomic: the user's numbers, the stock, the request's marker and the in-flight entry
-- change together or not at all. Refusals change nothing and cost no memory. An unreadable entry is reported to the
-- keeper (see the include), and its user is answered NOT_LOADED.
-- KEYS  1 meta   2 users:<epoch>   3 inflight:<epoch>, of the epoch that the caller knows
-- ARGV  1 epoch the caller knows   2 run of the connection   3 now in ms   4 user
--       5 key digest   6 payload hash   7 claim id   8 quantity
-- Returns {code, ...}:
--   0 ADMITTED numbers left        1 REPLAY id state numbers     2 KEY_REUSED
--   3 NOT_LOADED                   4 OTHER_EPOCH epoch
--   5 NOT_OPEN look starts_ms      6 PAUSED look   7 CLOSED look   8 ENDED look
--   9 LIMIT look taken             10 SOLD_OUT look   11 INSUFFICIENT look left
--   12 TOO_OLD: this id or a later one was dropped from the entry, so it may have landed
--   look = 1: the refusal is final only after MySQL was checked for the key
-- include entry
local ADMITTED, REPLAY, KEY_REUSED, NOT_LOADED, OTHER_EPOCH = 0, 1, 2, 3, 4
local NOT_OPEN, PAUSED, CLOSED, ENDED, LIMIT, SOLD_OUT, INSUFFICIENT = 5, 6, 7, 8, 9, 10, 11
local TOO_OLD = 12

local epoch, run, now, user = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local key, hash, id, quantity = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])

local meta = redis.call('HMGET', KEYS[1],
    'phase', 'epoch', 'run', 'users', 'state', 'starts', 'ends', 'limit', 'stock')
local phase, current, users, state = meta[1], meta[2], meta[4], meta[5]
if phase ~= 'open' or meta[3] ~= run then return { NOT_LOADED } end
if current ~= epoch then return { OTHER_EPOCH, current } end
-- A gate with an unreadable number counts as lost.
for _, number in ipairs({ users, meta[6], meta[7], meta[8], meta[9] }) do
    if not tonumber(number) then return { NOT_LOADED } end
end
if redis.call('HLEN', KEYS[2]) < tonumber(users) then return { NOT_LOADED } end

local limit, stock = tonumber(meta[8]), tonumber(meta[9])
local text = redis.call('HGET', KEYS[2], user)
local entry = text and decode(text, KEYS[1], user)
if text and not entry then return { NOT_LOADED } end
entry = entry or { flags = 0, taken = '', floor = '', requests = {} }
for _, request in ipairs(entry.requests) do
    if request.key == key then
        if request.hash ~= hash then return { KEY_REUSED } end
        return { REPLAY, request.id, request.state, request.numbers }
    end
end

local look = (limit == 0 or entry.flags == LOOK_IN_MYSQL) and 1 or 0
if state == 'ended' then return { ENDED, look } end
if now < tonumber(meta[6]) then return { NOT_OPEN, look, meta[6] } end
if now >= tonumber(meta[7]) then return { CLOSED, look } end
if state ~= 'published' then return { PAUSED, look } end

-- Take the lowest free numbers.
local numbers = {}
if limit > 0 then
    local _, taken = string.gsub(entry.taken, '1', '')
    if taken + quantity > limit then return { LIMIT, look, taken } end
    local marks = {}
    for number = 1, limit do
        local mark = string.sub(entry.taken, number, number)
        if mark ~= '1' then
            mark = '0'
            if #numbers < quantity then
                mark = '1'
                table.insert(numbers, string.char(number))
            end
        end
        marks[number] = mark
    end
    entry.taken = table.concat(marks)
end
if stock <= 0 then return { SOLD_OUT, look } end
if stock < quantity then return { INSUFFICIENT, look, stock } end
if not is_above(id, entry.floor) then return { TOO_OLD } end

numbers = table.concat(numbers)
table.insert(entry.requests,
    { key = key, hash = hash, state = 'p', quantity = quantity, id = id, numbers = numbers })
-- First, because Redis undoes nothing: a key of another type must stop the claim before the stock is taken.
redis.call('ZADD', KEYS[3], now, id .. ':' .. user)
if redis.call('HSET', KEYS[2], user, encode(entry)) == 1 then
    redis.call('HINCRBY', KEYS[1], 'users', 1)
end
local left = redis.call('HINCRBY', KEYS[1], 'stock', -quantity)
return { ADMITTED, numbers, left }
