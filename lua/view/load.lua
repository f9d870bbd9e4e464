#!lua
-- Loads rows into a view under rebuild, each only if it is newer than the stored version.
--
-- KEYS    1 list (ZSet), 2 coupons (hash)
-- ARGV    1 generation, 2 nonce, 3 now_ms, 4 how long an unfinished view lives from now on (ms);
--         then four for each row: coupon id, member, score ('' removes it from the list), entry
-- Returns 1 loaded, 0 this rebuild does not own the view any more
-- Raises  UNREADABLE and what is unreadable: drop the view
--
-- Each call shows that the rebuild is alive, so that a long one is not taken over.
-- Atomic, because rows may only go into keys that still carry this rebuild's token.
-- include state
-- include apply_if_newer
local list, coupons = KEYS[1], KEYS[2]
local state, token = view_state(list, coupons, ARGV[1])
if state ~= 'loading' or token ~= token_of(list, ARGV[1], ARGV[2]) then
  return 0
end
redis.call('HSET', coupons, '~since', ARGV[3])
redis.call('PEXPIRE', list, ARGV[4])
redis.call('PEXPIRE', coupons, ARGV[4])
for i = 5, #ARGV, 4 do
  apply_if_newer(list, coupons, ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
end
return 1
