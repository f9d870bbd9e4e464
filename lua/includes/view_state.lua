-- Ends the script with an error that names what no script of ours writes. Whoever called drops the
-- user's view: nothing in it can be trusted, and the next reader rebuilds it from MySQL.
local function unreadable(what)
  error(redis.error_reply('UNREADABLE ' .. what))
end

-- A number as the scripts write it: digits, few enough that Lua keeps them all.
local function number(text, what)
  if not text or #text > 15 or not string.match(text, '^%d+$') then
    unreadable(what)
  end
  return tonumber(text)
end

-- The token of a rebuild. It names the user, so that keys which were copied from another user's are cold.
local function token_of(list, generation, nonce)
  return generation .. ':' .. string.match(list, '{(%-?%d+)}:list$') .. ':' .. nonce
end

-- What a user's two keys say of themselves together. Both carry the token `generation:user:nonce` of the
-- rebuild that made them: the list as its only member below score 0, the hash in a field. A key
-- that was evicted, or one that belongs to another rebuild, makes the two disagree.
-- Returns the state ('loading' or 'complete'; nil: the view is cold), the token, the time of begin, and
-- the generation of what stands there, cold or not (nil: nothing).
local function view_state(list, coupons, generation)
  local token, state, since = unpack(redis.call('HMGET', coupons, '~token', '~state', '~since'))
  local sentinels = redis.call('ZRANGEBYSCORE', list, '-inf', '(0')
  if not token then
    return nil
  end
  local standing = number(string.match(token, '^(%d+):[%x:-]+$'), '~token')
  local ours = token_of(list, generation, '')
  local agree = #sentinels == 1 and sentinels[1] == '~' .. token
  if not agree or string.sub(token, 1, #ours) ~= ours then
    return nil, nil, nil, standing
  end
  if state == 'loading' then
    since = number(since, '~since')
  elseif state ~= 'complete' then
    unreadable('~state')
  end
  return state, token, since, standing
end
