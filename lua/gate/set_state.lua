#!lua flags=allow-oom
-- Sets the template's state and mode in the gate if the template's version is newer than the gate's. Also while the
-- gate is loading; then `open.lua` keeps the newer of the two. Atomic: state, mode and version change together, so a
-- late call never undoes a newer one.
-- KEYS  1 meta
-- ARGV  1 epoch the caller knows   2 run of the connection   3 template version   4 state
--       5 mode: direct, queued or spill
-- Returns 1 set, 0 not newer, -1 absent or under another epoch or run
-- include numbers
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'version')
if meta[1] ~= ARGV[1] or meta[2] ~= ARGV[2] then return -1 end
local known = whole(meta[3])
if known and known >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[3], 'state', ARGV[4], 'mode', ARGV[5])
return 1
