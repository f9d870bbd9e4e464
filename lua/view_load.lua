#!lua
-- Loads rows into a view under rebuild, each only if it is newer than what is there.
--
-- KEYS    1 list (ZSet), 2 coupons (hash)
-- ARGV    1 generation, 2 nonce; then four for each row:
--         coupon id, member, score ('' takes it off the list), entry
-- Returns 1 loaded, 0 the view is not under this rebuild any more
-- Raises  UNREADABLE and what: drop the view
--
-- Atomic, because rows may only go into keys that still carry this rebuild's nonce.
-- @include view_state.lua
-- @include view_apply_if_newer.lua
local state, token = view_state(KEYS[1], KEYS[2], ARGV[1])
if state ~= 'loading' or token ~= token_of(KEYS[1], ARGV[1], ARGV[2]) then
  return 0
end
for i = 3, #ARGV, 4 do
  apply_if_newer(KEYS[1], KEYS[2], ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
end
return 1
