#!lua flags=no-writes,allow-oom
-- get: returns one job with its records.
-- @keys P
-- @args topic, tag+id, 'bodiless' or ''
-- @returns whole or bodiless (shared/whole.lua), or nothing; DQRESTORING if the job may be lost
-- @include list, clock, numbers, topics, jobs, queues, whole
local job = find(ARGV[4], ARGV[5])
if not job and (note or went_back) then return redis.error_reply('DQRESTORING this job may be lost; the journal puts it back') end
if not job then return {} end
return ARGV[6] == 'bodiless' and bodiless(job) or whole(job)
