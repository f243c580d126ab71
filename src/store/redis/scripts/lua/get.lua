#!lua flags=no-writes,allow-oom
-- get: one job with all that is kept of it.
-- @keys P
-- @args topic, tag+id
-- @returns whole, or nothing
-- @include list, clock, numbers, topics, jobs, queues, whole
local job = find(ARGV[4], ARGV[5])
return job and whole(job) or {}
