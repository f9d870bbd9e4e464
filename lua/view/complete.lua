#!lua
-- Ends a rebuild: from now on readers trust the view.
--
-- KEYS    1 list (ZSet), 2 coupons (hash)
-- ARGV    1 generation, 2 nonce, 3 how long the view lives (ms)
-- Returns 1 complete, 0 this rebuild does not own the view any more
-- Raises  UNREADABLE and what is unreadable: drop the view
--
-- Atomic, because both keys must carry the token at the moment the view becomes complete.
-- include state
local list, coupons = KEYS[1], KEYS[2]
local state, token = view_state(list, coupons, ARGV[1])
if state ~= 'loading' or token ~= token_of(list, ARGV[1], ARGV[2]) then
  return 0
end
redis.call('HSET', coupons, '~state', 'complete')
redis.call('HDEL', coupons, '~since')
redis.call('PEXPIRE', list, ARGV[3])
redis.call('PEXPIRE', coupons, ARGV[3])
return 1
