#!lua
-- Begins the rebuild of a cold view: deletes the user's keys and writes a loading token into each.
--
-- KEYS    1 list (ZSet), 2 coupons (hash)
-- ARGV    1 generation, 2 nonce, 3 now_ms, 4 how long a rebuild counts as alive after its last call (ms),
--         5 how long an unfinished view lives (ms)
-- Returns 1 begun, 0 another rebuild is alive, 2 the view is complete, 3 the view is of a later
--         generation: the caller's is outdated
-- Raises  UNREADABLE and what is unreadable: drop the view
--
-- Atomic, because the keys must change owner together: members left over from the previous view would be "not newer"
-- for ever, and a token in one key alone would not reveal the loss of the other.
-- include state
local list, coupons, generation = KEYS[1], KEYS[2], ARGV[1]
local state, _, since, stored_generation = view_state(list, coupons, generation)
if stored_generation and stored_generation > tonumber(generation) then
  return 3
end
if state == 'complete' then
  return 2
end
if state == 'loading' and since + tonumber(ARGV[4]) > tonumber(ARGV[3]) then
  return 0
end
local token = token_of(list, generation, ARGV[2])
redis.call('UNLINK', list, coupons)
redis.call('HSET', coupons, '~token', token, '~state', 'loading', '~since', ARGV[3])
redis.call('ZADD', list, -1, '~' .. token)
redis.call('PEXPIRE', list, ARGV[5])
redis.call('PEXPIRE', coupons, ARGV[5])
return 1
