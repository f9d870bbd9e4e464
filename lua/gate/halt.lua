#!lua flags=allow-oom
-- Pauses a template at its gate, for an operator whom MySQL does not answer: claims are refused as paused until
-- `lift_halt.lua`, whatever MySQL says, and in later epochs too; also while the gate is loading. An earlier pause stays.
-- Atomic: of two operators one is first.
-- KEYS  1 meta
-- ARGV  1 run of the connection   2 the pause: text of its author, who reads it again
-- Returns {1, ''} paused, {0, pause} paused before, {-1, ''} absent or of another run: no claim is admitted anyway
local meta = redis.call('HMGET', KEYS[1], 'run', 'halt')
if meta[1] ~= ARGV[1] then return { -1, '' } end
if meta[2] then return { 0, meta[2] } end
redis.call('HSET', KEYS[1], 'halt', ARGV[2])
return { 1, '' }
