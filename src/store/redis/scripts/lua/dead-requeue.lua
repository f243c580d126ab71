#!lua
-- dead-requeue: requeues dead letters, oldest death first.
-- @keys P
-- @args max, filter
-- @returns requeued, 1 when more match, the bound of the filter, or the next number before the call;
--   with a journal topic, tag+id and change of each job
-- @writes as requeue
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, dead
local max, filter = tonumber(ARGV[4]), read_filter(5)
local below = math.min(filter.below, seq + 1)
local found, more = oldest_dead(filter, max)
local changed = {}
for _, job in ipairs(found) do
  revive(job)
  note_change(changed, job, job.version)
end
finish()
return { #found, more and 1 or 0, below, changed }
