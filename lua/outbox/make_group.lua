#!lua flags=allow-oom
-- Makes the consumer group of an outbox. It begins at the first entry, never at the end: entries may be older than the
-- group. A script, because a full Redis refuses the bare command, and only relays make room there.
-- KEYS  1 outbox
-- ARGV  1 consumer group
-- Returns 1 there is a group, 0 there is no outbox
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0')
if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return made end
return 1
