#!lua flags=allow-oom
-- raise-list: raises the list number of the bucket, and counts its jobs and alerts.
-- @keys P
-- @args none; the number is the caller's (frame)
-- @returns jobs in any state, alerts owed or claimed, the list number now, 1 while a move is open
-- @writes the list number, if it was lower
-- @include clock, numbers, topics
-- Why: one step, in this order: a bucket that counts as empty stays so, because no older list can place a job
--   here.
local list, its_list = tonumber(head[2] or '0'), tonumber(ARGV[2])
if list < its_list then call('HSET', P .. ':n', 'list', ARGV[2]) end
local owed = call('ZCARD', P .. ':oc')
for _, no in ipairs(numbers_in_use()) do owed = owed + call('ZCARD', P .. ':ow:' .. no) end
return { call('HLEN', P .. ':j'), owed, math.max(list, its_list), moving and 1 or 0 }
