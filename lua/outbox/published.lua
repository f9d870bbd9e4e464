#!lua flags=allow-oom
-- Confirms that a queued claim was published under this very gate, after the topic has acknowledged it. Only then is it
-- certain to land: a rebuild notes the end of the topic after it began, so it waits for everything published before.
-- Atomic: the gate is open under the admission's epoch and run and holds the request while its entry leaves the outbox.
-- The entry may be pending at a relay, so it is acknowledged too.
-- KEYS  1 meta   2 users:<epoch>   3 outbox
-- ARGV  1 epoch   2 run of the admission   3 user   4 claim id   5 consumer group   6 entry id, '' unknown
-- Returns 1 confirmed, 0 another gate, or one that does not hold the request
-- include entry
local meta = redis.call('HMGET', KEYS[1], 'phase', 'epoch', 'run')
if meta[1] ~= 'open' or meta[2] ~= ARGV[1] or meta[3] ~= ARGV[2] then return 0 end
local text = redis.call('HGET', KEYS[2], ARGV[3])
local entry = text and decode(text, KEYS[1], ARGV[3])
for _, request in ipairs(entry and entry.requests or {}) do
    if request.id == ARGV[4] and (request.state == 'q' or request.state == 'l') then
        if ARGV[6] ~= '' then
            redis.call('XACK', KEYS[3], ARGV[5], ARGV[6])
            redis.call('XDEL', KEYS[3], ARGV[6])
        end
        return 1
    end
end
return 0
