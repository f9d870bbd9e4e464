#!lua flags=allow-oom
-- Lifts a pause that `halt.lua` made, in whatever epoch or run it is. Atomic: another pause, made meanwhile, stays.
-- KEYS  1 meta
-- ARGV  1 the pause
-- Returns 1 lifted, 0 not there
if redis.call('HGET', KEYS[1], 'halt') ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'halt')
return 1
