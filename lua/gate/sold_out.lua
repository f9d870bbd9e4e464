#!lua flags=allow-oom
-- Looks whether the gate refuses every user who has no entry as sold out, and how many users have one. Within an epoch
-- no entry is removed, so a caller that knows as many users with an entry knows all of them. It may then refuse others
-- without a call for a while. The script notes that time, and a claim that `claim.lua` admits in it is answered only at
-- its end. Atomic: a claim comes before the look, and shows in the look's answer, or after the note.
-- KEYS  1 meta   2 users:<epoch>   3 refusing
-- ARGV  1 epoch the caller knows   2 run of the connection   3 how many users with an entry it knows, '' none
--       4 for how many ms it may refuse
-- Returns {1, users, starts_ms, ends_ms, limit}; {0}: the gate would admit some such user, refuses them for another
-- reason or not for good, or is absent, loading, damaged, or of another epoch or run
-- include numbers
local meta = redis.call('HMGET', KEYS[1],
    'phase', 'epoch', 'run', 'users', 'state', 'starts', 'ends', 'limit', 'stock')
if meta[1] ~= 'open' or meta[2] ~= ARGV[1] or meta[3] ~= ARGV[2] then return { 0 } end
local needed, starts, ends = whole(meta[4]), whole(meta[6]), whole(meta[7])
local limit, stock = whole(meta[8]), whole(meta[9])
if not (needed and starts and ends and limit and stock) then return { 0 } end
local users = redis.call('HLEN', KEYS[2])
-- Without a limit MySQL must be asked before each refusal.
if users < needed or meta[5] ~= 'published' or limit == 0 or stock > 0 then return { 0 } end
if ARGV[3] == tostring(users) then redis.call('SET', KEYS[3], '', 'PX', ARGV[4]) end
return { 1, users, meta[6], meta[7], meta[8] }
