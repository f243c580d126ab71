#!lua
-- dead-requeue: requeues dead letters, oldest death first.
-- @keys P
-- @args max, filter
-- @returns requeued, 1 when more match, the newest version before the call: later steps pass over newer ones;
--   with a journal topic, tag+id and change of each job
-- @writes as requeue
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, dead
local max, last = tonumber(ARGV[4]), math.max(seq, us - 1)
local found, more = oldest_dead(read_filter(5), max)
local changed = {}
for _, job in ipairs(found) do
  revive(job)
  note_change(changed, job, job.version)
end
finish()
return { #found, more and 1 or 0, last, changed }
