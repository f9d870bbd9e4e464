#!lua flags=allow-oom
-- Removes relayed entries from the outbox, only while the server's run is the one in which they were read: a Redis that
-- went back in time gives the same ids to other claims. The run is the server's, not meta's, because the outbox is also
-- read between a restart and the rebuild after it. Atomic: if an entry were acknowledged and not removed, no relay would
-- read it again.
-- KEYS  1 outbox
-- ARGV  1 run of the read   2 consumer group   then entry ids
-- Returns 1 removed, 0 the server is of another run
local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
local id, replication = string.match(info, 'run_id:(%w+)'), string.match(info, 'master_replid:(%w+)')
if ARGV[1] ~= tostring(id) .. '/' .. tostring(replication) then return 0 end
redis.call('XACK', KEYS[1], ARGV[2], unpack(ARGV, 3))
redis.call('XDEL', KEYS[1], unpack(ARGV, 3))
return 1
