#!lua flags=no-writes,allow-oom
-- position: counts the ready jobs before one, of its topic and priority.
-- @keys P
-- @args topic, tag+id
-- @returns their number; -1 = the job is not ready, -2 = no job has this key
-- @include clock, numbers, topics, jobs, queues, places
local job = find(ARGV[4], ARGV[5])
if not job then return -2 end
if state_of(job) ~= 1 then return -1 end
return rank_of(P .. ':r:' .. job.prio .. ':' .. job.no, job.due, job.version)
