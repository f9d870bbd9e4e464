#!lua
-- Admits or refuses one claim. Atomic: the user's numbers, the stock, the request's marker, the in-flight or queued
-- entry and the outbox change together or not at all. Refusals change nothing and cost no memory. An unreadable entry
-- is reported to the keeper (see the include), and its user is answered NOT_LOADED.
-- The gate's own mode decides whether an admission is landed at once or queued: the caller's copy may be old.
-- KEYS  1 meta   2 users:<epoch>   3 inflight:<epoch>   4 queued:<epoch>, of the epoch that the caller knows   5 outbox
--       6 refusing
-- ARGV  1 epoch the caller knows   2 run of the connection   3 now in ms   4 user
--       5 key digest   6 payload hash   7 claim id   8 quantity
--       9 behind: 1 if the caller's lander cannot keep up (mode spill)   10 most entries of the outbox
--       11 key   12 code of what 202 waits for   13 trace parent, '' none
--       14 touch: 1 if a replay of a queued request must write, so that a WAIT after it covers the request
--       15 most queued requests of one user
--       16 looked: 1 if MySQL has no answer under the key
-- Returns {code, ...}:
--   0 ADMITTED numbers left wait   1 REPLAY id state numbers look admitted_ms ('' unless queued) wait
--   2 KEY_REUSED                   3 NOT_LOADED                   4 OTHER_EPOCH epoch wait
--   5 NOT_OPEN look wait starts_ms   6 PAUSED look wait   7 CLOSED look wait   8 ENDED look wait
--   9 LIMIT look wait taken   10 SOLD_OUT look wait   11 INSUFFICIENT look wait left
--   12 TOO_OLD wait: this id or a later one was dropped from the entry, so it may have landed
--   13 QUEUED numbers left entry_id look wait   14 OUTBOX_FULL        15 BANNED look wait lapses
--   16 TOO_MANY_QUEUED: this user's queued claims must land first
--   17 LOOK_FIRST wait: the claim would be queued, but its key may have its answer in MySQL. Nothing was done: a coupon
--      taken for such a key would be refused to others until the claim's end. Send it again once it is looked up.
--   look = 1: MySQL must be checked for the key before the refusal is final, or before the queued claim is accepted:
--   another request with the key may have ended since the caller looked. Without a limit every refusal is checked, but
--   a queued claim only if the entry says so: a gate is loaded with an entry of each user who has answers in MySQL. So
--   a sale goes on for all others while MySQL is away.
--   wait = ms after which no api refuses this user from memory any more. A success is answered only then, also one that
--   MySQL has under the key of a refused claim; 0 where MySQL need not be checked.
-- include entry
-- include numbers
local ADMITTED, REPLAY, KEY_REUSED, NOT_LOADED, OTHER_EPOCH = 0, 1, 2, 3, 4
local NOT_OPEN, PAUSED, CLOSED, ENDED, LIMIT, SOLD_OUT, INSUFFICIENT = 5, 6, 7, 8, 9, 10, 11
local TOO_OLD, QUEUED, OUTBOX_FULL, BANNED, TOO_MANY_QUEUED, LOOK_FIRST = 12, 13, 14, 15, 16, 17

local NUMBERS_MAX = 255 -- an entry keeps each number as one byte

local function wait() return math.max(redis.call('PTTL', KEYS[6]), 0) end

local epoch, run, now, user = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local key, hash, id, quantity = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])

local meta = redis.call('HMGET', KEYS[1],
    'phase', 'epoch', 'run', 'users', 'state', 'starts', 'ends', 'limit', 'stock', 'mode',
    'lapses_allowed', 'halt')
local phase, current, users, state, mode = meta[1], meta[2], meta[4], meta[5], meta[10]
if phase ~= 'open' or meta[3] ~= run then return { NOT_LOADED } end
if current ~= epoch then
    if not whole(current) then return { NOT_LOADED } end
    return { OTHER_EPOCH, current, wait() }
end
-- A gate with an unreadable number counts as lost, and so does one in a mode that no template has. A few patterns for
-- all numbers cost less than `whole` for each of them.
if not (users and meta[6] and meta[7] and meta[8] and meta[9]) then return { NOT_LOADED } end
-- Absent in a gate that an older version opened: nothing lapsed then, and every claim was direct.
local lapses_allowed = meta[11] or '0'
local joined = users .. ' ' .. meta[6] .. ' ' .. meta[7] .. ' ' .. meta[8] .. ' ' .. lapses_allowed .. ' ' .. meta[9]
if not string.find(joined, '^%d+ %-?%d+ %-?%d+ %d+ %d+ %-?%d+$') then return { NOT_LOADED } end
if string.find(joined, '%f[%d]0%d') or string.find(joined, '-0', 1, true) then return { NOT_LOADED } end
users = tonumber(users)
local starts, ends, limit, stock =
    tonumber(meta[6]), tonumber(meta[7]), tonumber(meta[8]), tonumber(meta[9])
local allowed = tonumber(lapses_allowed)
if math.max(users, starts, ends, stock, allowed) > EXACT then return { NOT_LOADED } end
if limit > NUMBERS_MAX or math.min(starts, ends, stock) < -EXACT then return { NOT_LOADED } end
if mode and mode ~= 'direct' and mode ~= 'queued' and mode ~= 'spill' then return { NOT_LOADED } end
if redis.call('HLEN', KEYS[2]) < users then return { NOT_LOADED } end

local text = redis.call('HGET', KEYS[2], user)
local entry = text and decode(text, KEYS[1], user)
if text and not entry then return { NOT_LOADED } end
entry = entry or no_entry(0)
local look_queued = entry.flags == LOOK_IN_MYSQL and 1 or 0
local look = limit == 0 and 1 or look_queued

local function refused(code, detail) return { code, look, look == 1 and wait() or 0, detail } end

-- Answers with a request that the gate remembers. A queued one is published with the time of its admission; a gate that
-- has lost it is damaged.
local function replay(request)
    local admitted = ''
    if request.state == 'q' then
        admitted = redis.call('ZSCORE', KEYS[4], request.id .. ':' .. user)
        if not admitted then
            redis.call('HSET', KEYS[1], 'unreadable', user)
            return { NOT_LOADED }
        end
        admitted = string.format('%.0f', tonumber(admitted))
        -- The entry as it is: a write that changes nothing.
        if ARGV[14] == '1' then redis.call('HSET', KEYS[2], user, text) end
    end
    return { REPLAY, request.id, request.state, request.numbers, look_queued, admitted, wait() }
end

local waiting = 0
for _, request in ipairs(entry.requests) do
    if request.key == key then
        if request.hash ~= hash then return { KEY_REUSED } end
        return replay(request)
    end
    if request.state == 'q' then waiting = waiting + 1 end
end

if state == 'ended' then return refused(ENDED) end
if now < starts then return refused(NOT_OPEN, meta[6]) end
if now >= ends then return refused(CLOSED) end
if state == 'paused' or state == 'draft' or meta[12] then return refused(PAUSED) end
-- Nor does a gate decide anything by a state that no template has.
if state ~= 'published' then return { NOT_LOADED } end

if allowed > 0 and entry.lapses >= allowed then return refused(BANNED, entry.lapses) end

-- Take the lowest free numbers.
local numbers = {}
if limit > 0 then
    local _, taken = string.gsub(entry.taken, '1', '')
    if taken + quantity > limit then return refused(LIMIT, taken) end
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
if stock <= 0 then return refused(SOLD_OUT) end
if stock < quantity then return refused(INSUFFICIENT, stock) end
if not is_above(id, entry.floor) then return { TOO_OLD, wait() } end

numbers = table.concat(numbers)
local queued = mode == 'queued' or (mode == 'spill' and ARGV[9] == '1')
-- Redis undoes nothing, so a key of the wrong type must stop the script before anything is taken. An outbox of another
-- type stops it here; the set of admissions in flight or queued, at the first write.
if queued and redis.call('XLEN', KEYS[5]) >= tonumber(ARGV[10]) then return { OUTBOX_FULL } end
if queued and waiting >= tonumber(ARGV[15]) then return { TOO_MANY_QUEUED } end
if queued and look_queued == 1 and ARGV[16] ~= '1' then return { LOOK_FIRST, wait() } end
redis.call('ZADD', queued and KEYS[4] or KEYS[3], ARGV[3], id .. ':' .. user)
local entry_id = queued and redis.call('XADD', KEYS[5], '*',
    'id', id, 'user', user, 'key', ARGV[11], 'hash', hash, 'quantity', ARGV[8], 'numbers', numbers,
    'epoch', epoch, 'at', ARGV[3], 'left', string.format('%.0f', stock - quantity),
    'after', ARGV[12], 'trace', ARGV[13])
table.insert(entry.requests, {
    key = key, hash = hash, state = queued and 'q' or 'p', quantity = quantity, id = id,
    numbers = numbers,
})
local new = redis.call('HSET', KEYS[2], user, encode(entry))
local left = stock - quantity
redis.call('HSET', KEYS[1], 'stock', string.format('%.0f', left),
    'users', string.format('%.0f', users + new))
if queued then
    return { QUEUED, numbers, left, entry_id, look_queued, wait() }
end
return { ADMITTED, numbers, left, wait() }
