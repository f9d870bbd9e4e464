-- Numbers in meta. Scripts write them as whole ones in plain decimal, and far below 2^53, up to which Lua's numbers are
-- exact. Any other text is damage: tonumber would read " 5", "0x10", "1e9", "inf" and "nan" as numbers, and HINCRBY
-- would fail in the middle of a script.
local EXACT = 9007199254740991

-- Returns the number, or nothing if no script writes this text.
local function whole(text)
    local number = tonumber(text)
    if not number or not (number >= -EXACT and number <= EXACT) then return end
    if text ~= '-0' and string.format('%.0f', number) == text then return number end
end
