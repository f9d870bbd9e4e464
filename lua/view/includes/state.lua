-- Ends the script with an error that names the unreadable text. The caller drops the user's view: nothing in it can be
-- trusted, and the next reader rebuilds it from MySQL.
local function unreadable(what)
  error(redis.error_reply('UNREADABLE ' .. what))
end

-- Returns a number in the scripts' format: digits only, few enough to be exact in Lua.
local function number(text, what)
  if not text or #text > 15 or not string.match(text, '^%d+$') then
    unreadable(what)
  end
  return tonumber(text)
end

-- Returns the token of a rebuild. It names the user, so that keys copied from another user count as cold.
local function token_of(list, generation, nonce)
  return generation .. ':' .. string.match(list, '{(%-?%d+)}:list$') .. ':' .. nonce
end

-- Reads the state of a user's view. Both keys carry the token `generation:user:nonce` of the rebuild that created
-- them: the list as its only member below score 0, the hash in a field. If a key was evicted or belongs to another
-- rebuild, the two disagree.
-- Returns the state ('loading' or 'complete'; nil: the view is cold), the token, the time of the rebuild's last call,
-- and the generation that the hash names, even if the view is cold (nil: none).
local function view_state(list, coupons, generation)
  local token, state, since = unpack(redis.call('HMGET', coupons, '~token', '~state', '~since'))
  local markers = redis.call('ZRANGEBYSCORE', list, '-inf', '(0')
  if not token then
    return nil
  end
  local stored_generation = number(string.match(token, '^(%d+):[%x:-]+$'), '~token')
  local ours = token_of(list, generation, '')
  local agree = #markers == 1 and markers[1] == '~' .. token
  if not agree or string.sub(token, 1, #ours) ~= ours then
    return nil, nil, nil, stored_generation
  end
  if state == 'loading' then
    since = number(since, '~since')
  elseif state ~= 'complete' then
    unreadable('~state')
  end
  return state, token, since, stored_generation
end
