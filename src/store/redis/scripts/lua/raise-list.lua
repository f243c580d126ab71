#!lua flags=allow-oom
-- raise-list: the bucket hears of a list of shards, and says what it holds.
-- @keys P
-- @args none; the number is the caller's
-- @returns jobs in any state, alerts that are still to be sent, the newest list that it has heard of now
-- @writes list number, where it was lower
-- @include clock, numbers, topics
-- Why: in this order and one step: what is empty now stays so, because no older list can place a job here any more.
local list, its_list = tonumber(head[2] or '0'), tonumber(ARGV[2])
if list < its_list then call('HSET', P .. ':n', 'list', ARGV[2]) end
local owed = call('ZCARD', P .. ':oc')
for _, no in ipairs(numbers_in_use()) do owed = owed + call('ZCARD', P .. ':ow:' .. no) end
return { call('HLEN', P .. ':j'), owed, math.max(list, its_list) }
