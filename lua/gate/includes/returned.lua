-- Applies what users get back from a return: frees numbers and counts lapses. Requests, floor and flags stay. Needs
-- includes/entry.lua.
-- Arguments from `first` on, in threes: user, freed numbers as one byte each, and the lapses: '+N' adds N, '=N' sets N,
-- '' counts nothing. A user without an entry gets one, with these flags, if lapses are counted.
local LAPSES_MAX = 255

-- A request whose number comes back has landed, though its lander may not have settled it here yet.
local function mark_landed(entry, number)
    for _, request in ipairs(entry.requests) do
        if string.find(request.numbers, string.char(number), 1, true) then request.state = 'l' end
    end
end

local function give_back(meta, users, first, flags)
    for at = first, #ARGV, 3 do
        local user, numbers, lapses = ARGV[at], ARGV[at + 1], ARGV[at + 2]
        local text = redis.call('HGET', users, user)
        local entry
        if text then
            entry = decode(text, meta, user)
        elseif lapses ~= '' and lapses ~= '=0' then
            entry = no_entry(flags)
        end
        if entry then
            for index = 1, #numbers do
                local number = string.byte(numbers, index)
                if number <= #entry.taken then
                    entry.taken = string.sub(entry.taken, 1, number - 1) .. '0'
                        .. string.sub(entry.taken, number + 1)
                    mark_landed(entry, number)
                end
            end
            if lapses ~= '' then
                local count = tonumber(string.sub(lapses, 2))
                if string.sub(lapses, 1, 1) == '+' then count = entry.lapses + count end
                entry.lapses = math.min(count, LAPSES_MAX)
            end
            if redis.call('HSET', users, user, encode(entry)) == 1 then
                redis.call('HINCRBY', meta, 'users', 1)
            end
        end
    end
end
