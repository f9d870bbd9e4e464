#!lua flags=no-writes
-- A page of a user's unused coupons, the newest first, without those whose validity has ended.
--
-- KEYS    1 list (ZSet), 2 coupons (hash)
-- ARGV    1 generation, 2 now_ms, 3 limit, 4 most members to look at,
--         5 a coupon id that the view must know ('' none),
--         6 and 7 score and member of the cursor: the page begins behind it ('' the first page)
-- Returns {0} the view is cold; {2} it does not know the coupon; {3} a member has no details;
--         {1, score, member, id, entry, id, entry, ...} the page and where the next one begins
--         ('' and '': there is none)
--
-- Atomic, because a page is only as good as the sentinels read with it.
-- @include view_state.lua
local list, coupons = KEYS[1], KEYS[2]
local now, limit, looks = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local known, from_score, from_member = ARGV[5], ARGV[6], ARGV[7]

-- Whether `member` comes behind the cursor's among members of one score. Byte by byte as the ZSet
-- sorts them: Lua's own comparison follows the server's locale.
local function is_behind(member, cursor)
  for i = 1, math.min(#member, #cursor) do
    local left, right = string.byte(member, i), string.byte(cursor, i)
    if left ~= right then
      return left < right
    end
  end
  return #member < #cursor
end

if view_state(list, coupons, ARGV[1]) ~= 'complete' then
  return {0}
end
if known ~= '' and redis.call('HEXISTS', coupons, known) == 0 then
  return {2}
end

local page, count, offset = {1, '', ''}, 0, 0
local max = from_score == '' and '+inf' or from_score
while true do
  local found =
    redis.call('ZREVRANGEBYSCORE', list, max, 0, 'WITHSCORES', 'LIMIT', offset, limit + 1)
  for i = 1, #found, 2 do
    local member, score = found[i], found[i + 1]
    if score ~= from_score or is_behind(member, from_member) then
      if count == limit or looks == 0 then
        return page
      end
      local id = string.match(member, '_(%d+)$')
      local entry = id and redis.call('HGET', coupons, id)
      if not entry then
        return {3}
      end
      if tonumber(string.match(entry, '(%d+)$')) > now then
        page[#page + 1] = id
        page[#page + 1] = entry
        count = count + 1
      end
      page[2], page[3], looks = score, member, looks - 1
    end
  end
  if #found < 2 * (limit + 1) then
    page[2], page[3] = '', ''
    return page
  end
  offset = offset + limit + 1
end
