#!lua
-- A page of a user's unused coupons, the newest first, without those whose validity has ended.
--
-- KEYS    1 list (ZSet), 2 coupons (hash)
-- ARGV    1 generation, 2 now_ms, 3 limit, 4 most members to look at,
--         5 a coupon id that the view must know ('' none),
--         6 and 7 score and member of the cursor: the page begins behind it ('' the first page)
-- Returns {0} the view is cold; {2} it does not know the coupon;
--         {1, score, member, id, entry, id, entry, ...} the page and where the next one begins
--         ('' and '': there is none)
-- Raises  UNREADABLE and what: drop the view
--
-- Atomic, because a page is only as good as the sentinels read with it.
-- It writes nothing, and yet is not declared so: then a replica, a master that has lost its replicas
-- and must not write, and one that is full refuse it. Each may lack what the view should have been told.
-- @include view_state.lua
local list, coupons = KEYS[1], KEYS[2]
local now, limit, looks = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local known, from_score, from_member = ARGV[5], tonumber(ARGV[6]), ARGV[7]

-- Whether `left` comes before `right` among members of one score, which the ZSet sorts by their
-- bytes: Lua's own comparison follows the server's locale.
local function is_less(left, right)
  for i = 1, math.min(#left, #right) do
    local a, b = string.byte(left, i), string.byte(right, i)
    if a ~= b then
      return a < b
    end
  end
  return #left < #right
end

-- The rank of the first of `count` members behind the cursor, by halves: its own member may be gone,
-- and any number may share its score.
local function rank_behind_cursor(count)
  local low, high = 0, count
  while low < high do
    local middle = math.floor((low + high) / 2)
    local member, score = unpack(redis.call('ZREVRANGE', list, middle, middle, 'WITHSCORES'))
    score = tonumber(score)
    if score < from_score or (score == from_score and is_less(member, from_member)) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

if view_state(list, coupons, ARGV[1]) ~= 'complete' then
  return {0}
end
if known ~= '' and redis.call('HEXISTS', coupons, known) == 0 then
  return {2}
end

-- The sentinel has the last rank.
local count = redis.call('ZCARD', list) - 1
local rank = from_score and rank_behind_cursor(count) or 0
local stop = math.min(rank + looks, count)
local page, shown = {1, '', ''}, 0
while rank < stop and shown < limit do
  local last = math.min(rank + limit - shown, stop) - 1
  local found, ids = redis.call('ZREVRANGE', list, rank, last, 'WITHSCORES'), {}
  for i = 1, #found, 2 do
    ids[#ids + 1] = string.match(found[i], '_(%d+)$')
  end
  if 2 * #ids < #found then
    unreadable('a member of the list')
  end
  local entries = redis.call('HMGET', coupons, unpack(ids))
  for i = 1, #ids do
    -- Only the unused are on the list, status 0.
    local ends = string.match(entries[i] or '', '^%d+|0|.*|(%d+)$')
    if number(ends, 'coupon ' .. ids[i]) > now then
      page[#page + 1] = ids[i]
      page[#page + 1] = entries[i]
      shown = shown + 1
    end
  end
  page[2], page[3] = found[#found], found[#found - 1]
  rank = last + 1
end
if rank == count then
  page[2], page[3] = '', ''
end
return page
