#!lua flags=allow-oom
-- Removes a gate that gives out no coupons any more: its template ended, or its window is over. Refused while an
-- admission is in flight or queued, since only the gate knows whose it is, and while the outbox holds a claim. A gate
-- of another run or one that is loading is removed regardless: it answers no claims and cannot end its admissions. Even
-- then the outbox stays unless it is empty, since its claims were accepted.
-- KEYS  1 meta   2 users:<epoch>   3 inflight:<epoch>   4 queued:<epoch>   5 outbox
-- ARGV  1 epoch   2 run of the connection   3 now in ms
-- Returns 1 removed, 0 in flight, queued or in the outbox, -1 still in use, -2 absent or under another epoch
-- include numbers
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'phase', 'state', 'ends')
if meta[1] ~= ARGV[1] then return -2 end
local has_outbox = redis.call('TYPE', KEYS[5]).ok == 'stream'
local waiting = has_outbox and redis.call('XLEN', KEYS[5]) or 0
if meta[2] == ARGV[2] and meta[3] == 'open' then
    if meta[4] ~= 'ended' and tonumber(ARGV[3]) < (whole(meta[5]) or 0) then return -1 end
    if waiting + redis.call('ZCARD', KEYS[3]) + redis.call('ZCARD', KEYS[4]) > 0 then return 0 end
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
if waiting == 0 then redis.call('UNLINK', KEYS[5]) end
return 1
