#!lua flags=no-writes,allow-oom
-- get: returns one job with all its records.
-- @keys P
-- @args topic, tag+id
-- @returns whole (shared/whole.lua), or nothing; DQRESTORING if the job may be lost
-- @include list, clock, numbers, topics, jobs, queues, whole
local job = find(ARGV[4], ARGV[5])
if not job and (note or went_back) then return redis.error_reply('DQRESTORING this job may be lost; the journal puts it back') end
return job and whole(job) or {}
