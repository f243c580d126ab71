#!lua
-- dead-requeue: brings dead letters back, oldest death first.
-- @keys P
-- @args max, filter
-- @returns requeued, 1 when more match
-- @writes as requeue
-- @include clock, numbers, topics, jobs, queues, alerts, moves, dead
local max = tonumber(ARGV[4])
local found = oldest_dead(read_filter(5), max + 1)
for i = 1, math.min(#found, max) do revive(found[i]) end
finish()
return { math.min(#found, max), #found > max and 1 or 0 }
