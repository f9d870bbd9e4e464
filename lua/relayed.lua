#!lua flags=allow-oom
-- Removes relayed entries from the outbox, only while the server's run is the one in which they were read: after Redis
-- went back in time, the same ids are given to other claims. Meta's run would be too strict: the outbox is also read
-- between a restart and the rebuild after it. Atomic: an entry is acknowledged and removed together, so that none is
-- left that no relay is given any more.
-- KEYS  1 outbox
-- ARGV  1 run of the read   2 consumer group   then entry ids
-- Returns 1 removed, 0 the server is of another run
local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
local id, replication = string.match(info, 'run_id:(%w+)'), string.match(info, 'master_replid:(%w+)')
if ARGV[1] ~= tostring(id) .. '/' .. tostring(replication) then return 0 end
redis.call('XACK', KEYS[1], ARGV[2], unpack(ARGV, 3))
redis.call('XDEL', KEYS[1], unpack(ARGV, 3))
return 1
