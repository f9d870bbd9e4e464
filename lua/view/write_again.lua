#!lua
-- Puts a member back on the list if a read after its write did not find it.
--
-- KEYS    1 list (ZSet), 2 coupons (hash)
-- ARGV    1 generation, 2 coupon id, 3 member, 4 score, 5 version
-- Returns 1 written again, 0 nothing to repair
-- Raises  UNREADABLE and what is unreadable: drop the view
--
-- Atomic, because only a view that still holds exactly this version may be written: a rebuild may have put a tombstone
-- there since the read.
-- include state
local list, coupons = KEYS[1], KEYS[2]
if not view_state(list, coupons, ARGV[1]) then
  return 0
end
local entry = redis.call('HGET', coupons, ARGV[2])
if not entry or string.match(entry, '^%d+') ~= ARGV[5] then
  return 0
end
return redis.call('ZADD', list, 'CH', ARGV[4], ARGV[3])
