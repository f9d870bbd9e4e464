#!lua
-- Applies changes of one user's coupons to the view, each only if it is newer than what is there.
--
-- KEYS    1 list (ZSet), 2 coupons (hash)
-- ARGV    1 generation; then four for each change:
--         coupon id, member, score ('' takes it off the list), entry
-- Returns one code for each change: 0 the view is cold and stays as it is, 1 applied, 2 not newer
--
-- Atomic, because a rebuild may begin between the look at the sentinels and the write, and another
-- consumer may apply a later version between the look at the version and the write.
-- @include view_state.lua
-- @include view_apply_if_newer.lua
local state = view_state(KEYS[1], KEYS[2], ARGV[1])
local codes = {}
for i = 2, #ARGV, 4 do
  local code = 0
  if state then
    local id, member, score, entry = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    code = apply_if_newer(KEYS[1], KEYS[2], id, member, score, entry) and 1 or 2
  end
  codes[#codes + 1] = code
end
return codes
