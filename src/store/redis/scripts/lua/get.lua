#!lua flags=no-writes,allow-oom
-- get: returns one job with all its records.
-- @keys P
-- @args topic, tag+id
-- @returns whole (shared/whole.lua), or nothing
-- @include list, clock, numbers, topics, jobs, queues, whole
local job = find(ARGV[4], ARGV[5])
return job and whole(job) or {}
