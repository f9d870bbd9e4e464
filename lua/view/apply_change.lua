#!lua
-- Applies changes of one user's coupons to the view, each only if it is newer than the stored version.
--
-- KEYS    1 list (ZSet), 2 coupons (hash)
-- ARGV    1 generation; then four for each change:
--         coupon id, member, score ('' removes it from the list), entry
-- Returns one code for each change: 0 the view is cold, 1 applied, 2 not newer, 3 cold, and of a later
--         generation: the caller's is outdated
-- Raises  UNREADABLE and what is unreadable: drop the view
--
-- The leftovers of a cold view are dropped, because a reader with another generation may trust them without this
-- change.
-- Atomic, because a rebuild may begin between reading the markers and writing, and another consumer may apply a later
-- version between reading the version and writing.
-- include state
-- include apply_if_newer
local state, _, _, stored_generation = view_state(KEYS[1], KEYS[2], ARGV[1])
local codes, cold = {}, 0
if not state then
  if stored_generation and stored_generation > tonumber(ARGV[1]) then
    cold = 3
  end
  redis.call('UNLINK', KEYS[1], KEYS[2])
end
for i = 2, #ARGV, 4 do
  local code = cold
  if state then
    local id, member, score, entry = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    code = apply_if_newer(KEYS[1], KEYS[2], id, member, score, entry) and 1 or 2
  end
  codes[#codes + 1] = code
end
return codes
