-- A user's entry: one field of the users hash, so that count and marker can only be lost together.
-- Layout 1, each part length-prefixed or of fixed size:
--   format byte 1 | flags byte | taken | request...
-- Layout 2, of an entry that has dropped requests:
--   format byte 2 | flags byte | taken | floor | request...
-- Layout 3, of a user who let holds lapse:
--   format byte 3 | flags byte | lapses byte | taken | floor, maybe empty | request...
--   flags    1: the entry does not have every request of this user (loaded from MySQL, dropped, or rejected after it
--            was queued): check MySQL
--   taken    one character 0 or 1 per number 1..limit; empty where there is no limit
--   request  key digest (16) | payload hash (16) | state p(ending), q(ueued) or l(anded) | quantity byte
--            | id as decimal text | numbers, one byte each
--   lapses   how many holds lapsed, as far as the gate's movements say; 255 stands for more
--   floor    the highest id that was dropped, as decimal text; no id up to it is admitted any more, otherwise
--            a packet that arrives after its own request was dropped would be admitted again
local FORMAT, FORMAT_WITH_FLOOR, FORMAT_WITH_LAPSES, LOOK_IN_MYSQL = 1, 2, 3, 1

-- Ids exceed the range of Lua's exact numbers. Of two texts the shorter one is the smaller number.
local function is_above(id, floor)
    if #id ~= #floor then return #id > #floor end
    return id > floor
end

local function decode_exactly(text)
    local format, flags, at = struct.unpack('>BB', text)
    assert(format >= FORMAT and format <= FORMAT_WITH_LAPSES, 'entry of an unknown format')
    local entry = { flags = flags, lapses = 0, floor = '', requests = {} }
    if format == FORMAT_WITH_LAPSES then
        entry.lapses, at = struct.unpack('>B', text, at)
    end
    entry.taken, at = struct.unpack('>Bc0', text, at)
    if format ~= FORMAT then
        entry.floor, at = struct.unpack('>Bc0', text, at)
    end
    local taken = entry.taken
    while at <= #text do
        local key, hash, state, quantity, id, numbers
        key, hash, state, quantity, id, numbers, at = struct.unpack('>c16c16c1BBc0Bc0', text, at)
        assert(state == 'p' or state == 'q' or state == 'l', 'a request of an unknown state')
        assert(string.match(id, '^%d+$'), 'a request without an id')
        for index = 1, #numbers do
            local number = string.byte(numbers, index)
            -- A landed request's coupons may have been given back.
            local is_taken = string.sub(taken, number, number) == '1'
            assert(is_taken or state == 'l', 'a number that is not taken')
        end
        table.insert(entry.requests, {
            key = key, hash = hash, state = state, quantity = quantity, id = id, numbers = numbers,
        })
    end
    return entry
end

-- Decodes an entry. Returns nothing if it is in no known format, and marks the gate in meta: the keeper then begins a
-- new epoch, which reads every entry from MySQL. Until then other users are served.
local function decode(text, meta, user)
    local readable, entry = pcall(decode_exactly, text)
    if readable then return entry end
    redis.call('HSET', meta, 'unreadable', user)
end

-- An entry without anything.
local function no_entry(flags)
    return { flags = flags, lapses = 0, taken = '', floor = '', requests = {} }
end

local function encode(entry)
    local format = entry.floor == '' and FORMAT or FORMAT_WITH_FLOOR
    if entry.lapses > 0 then format = FORMAT_WITH_LAPSES end
    local parts = { struct.pack('>BB', format, entry.flags) }
    if format == FORMAT_WITH_LAPSES then
        table.insert(parts, struct.pack('>B', entry.lapses))
    end
    table.insert(parts, struct.pack('>Bc0', #entry.taken, entry.taken))
    if format ~= FORMAT then
        table.insert(parts, struct.pack('>Bc0', #entry.floor, entry.floor))
    end
    for _, r in ipairs(entry.requests) do
        table.insert(parts, struct.pack('>c16c16c1BBc0Bc0', r.key, r.hash, r.state, r.quantity,
            #r.id, r.id, #r.numbers, r.numbers))
    end
    return table.concat(parts)
end
