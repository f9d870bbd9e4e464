-- What a user's two keys say of themselves together. Both carry the token `generation:nonce` of the
-- rebuild that made them: the list as its only member below score 0, the hash in a field. A key
-- that was evicted, or one that belongs to another rebuild, makes the two disagree.
-- Returns the state ('loading' or 'complete'), the token and the time of begin; nil: the view is cold.
local function view_state(list, coupons, generation)
  local token, state, since = unpack(redis.call('HMGET', coupons, '~token', '~state', '~since'))
  local sentinels = redis.call('ZRANGEBYSCORE', list, '-inf', '(0')
  if not token or #sentinels ~= 1 or sentinels[1] ~= '~' .. token then
    return nil
  end
  if string.sub(token, 1, #generation + 1) ~= generation .. ':' then
    return nil
  end
  return state, token, since
end
