#!lua flags=allow-oom
-- Opens a loaded gate, only from exactly loading(E), with the facts read from MySQL after E began. State and mode that
-- `set_state.lua` set meanwhile stay if their version is newer.
-- KEYS  1 meta   2 refusing
-- ARGV  1 epoch E   2 run   3 template version   4 state   5 starts_ms   6 ends_ms   7 limit
--       8 stock   9 last movement   10 mode: direct, queued or spill   11 lapses allowed, 0 any
--       12 for how many ms an api may refuse by a look at the gate before this one, as `sold_out.lua` notes it; 0: there was none
-- Returns 1 opened, 0 refused
-- include numbers
local meta = redis.call('HMGET', KEYS[1], 'phase', 'epoch', 'run', 'version', 'state', 'mode')
if meta[1] ~= 'loading' or meta[2] ~= ARGV[1] or meta[3] ~= ARGV[2] then return 0 end
local version, state, mode = ARGV[3], ARGV[4], ARGV[10]
if (whole(meta[4]) or 0) > tonumber(version) then
    version, state, mode = meta[4], meta[5], meta[6] or mode
end
redis.call('HSET', KEYS[1], 'phase', 'open', 'version', version, 'state', state, 'mode', mode,
    'starts', ARGV[5], 'ends', ARGV[6], 'limit', ARGV[7], 'stock', ARGV[8], 'movement', ARGV[9],
    'lapses_allowed', ARGV[11])
-- The note may have been lost with the gate before.
if ARGV[12] ~= '0' then redis.call('SET', KEYS[2], '', 'PX', ARGV[12]) end
return 1
