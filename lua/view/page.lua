#!lua
-- Returns a page of a user's unused coupons, newest first, without those whose validity has ended.
--
-- KEYS    1 list (ZSet), 2 coupons (hash)
-- ARGV    1 generation, 2 now_ms, 3 limit, 4 most members to read,
--         5 a coupon id that the view must contain ('' none),
--         6 and 7 score and member of the cursor: the page begins after it ('' the first page)
-- Returns {0} the view is cold; {2} it does not contain the coupon;
--         {1, score, member, id, entry, id, entry, ...} the next page's cursor and the page
--         ('' and '': this is the last page)
-- Raises  UNREADABLE and what is unreadable: drop the view
--
-- Atomic, because a page is valid only together with the markers read with it.
-- The script writes nothing, but is deliberately not declared read-only. Therefore a replica, a master that lost its
-- replicas and must not write, and a full server refuse it; each of them may lack changes to the view.
-- include state
local list, coupons = KEYS[1], KEYS[2]
local now, limit, looks = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local known, from_score, from_member = ARGV[5], tonumber(ARGV[6]), ARGV[7]

-- Whether `left` comes before `right` among members of one score. The ZSet orders these by their bytes, while Lua's own
-- comparison depends on the server's locale.
local function is_less(left, right)
  for i = 1, math.min(#left, #right) do
    local a, b = string.byte(left, i), string.byte(right, i)
    if a ~= b then
      return a < b
    end
  end
  return #left < #right
end

-- Returns the rank of the first of `count` members after the cursor, by binary search: the cursor's own member may be
-- gone, and any number of members may share its score.
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

-- The marker has the last rank.
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
    -- The list contains only unused coupons, status 0.
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
