-- A user's entry: one field of the users hash, so that count and marker cannot be lost apart.
-- Layout 1, each part length-prefixed or of fixed size:
--   format byte 1 | flags byte | taken | request...
--   flags    1: not every request of this user is here (loaded from MySQL, or dropped): look in MySQL
--   taken    one character 0 or 1 per number 1..limit; empty where there is no limit
--   request  key digest (16) | payload hash (16) | state p(ending) or l(anded) | quantity byte
--            | id as decimal text | numbers, one byte each
local FORMAT, LOOK_IN_MYSQL = 1, 1

local function decode(text)
    local format, flags, taken, at = struct.unpack('>BBBc0', text)
    assert(format == FORMAT, 'entry of an unknown format')
    local entry = { flags = flags, taken = taken, requests = {} }
    while at <= #text do
        local key, hash, state, quantity, id, numbers
        key, hash, state, quantity, id, numbers, at = struct.unpack('>c16c16c1BBc0Bc0', text, at)
        table.insert(entry.requests, {
            key = key, hash = hash, state = state, quantity = quantity, id = id, numbers = numbers,
        })
    end
    return entry
end

local function encode(entry)
    local parts = { struct.pack('>BBBc0', FORMAT, entry.flags, #entry.taken, entry.taken) }
    for _, r in ipairs(entry.requests) do
        table.insert(parts, struct.pack('>c16c16c1BBc0Bc0', r.key, r.hash, r.state, r.quantity,
            #r.id, r.id, #r.numbers, r.numbers))
    end
    return table.concat(parts)
end
