-- An entry begins with its version: `version|status|...`.
local function version_of(id, entry)
  return number(string.match(entry, '^(%d+)|%d+'), 'coupon ' .. id)
end

-- Writes one coupon unless the hash has its version or a later one. A coupon that leaves the list (score '') stays in
-- the hash as a tombstone, so that a replayed insert cannot bring it back.
-- Returns whether it wrote.
local function apply_if_newer(list, coupons, id, member, score, entry)
  local known = redis.call('HGET', coupons, id)
  if known and version_of(id, known) >= version_of(id, entry) then
    return false
  end
  redis.call('HSET', coupons, id, entry)
  if score == '' then
    redis.call('ZREM', list, member)
  else
    redis.call('ZADD', list, score, member)
  end
  return true
end
