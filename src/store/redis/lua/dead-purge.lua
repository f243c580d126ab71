#!lua flags=allow-oom
-- dead-purge: removes dead letters, oldest death first; owed alerts stay owed.
-- @keys P
-- @args max, filter
-- @returns purged, 1 when more match
-- @writes as cancel
-- @include clock, numbers, topics, jobs, queues, alerts, moves, ends, dead
local max = tonumber(ARGV[4])
local found = oldest_dead(read_filter(5), max + 1)
for i = 1, math.min(#found, max) do end_job(found[i], 2, '') end
finish()
return { math.min(#found, max), #found > max and 1 or 0 }
