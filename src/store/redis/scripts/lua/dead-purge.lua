#!lua flags=allow-oom
-- dead-purge: removes dead letters, oldest death first; owed alerts stay owed.
-- @keys P
-- @args max, filter
-- @returns purged, 1 when more match, the newest version before the call: later steps pass over newer ones;
--   with a journal topic, tag+id and change of each job
-- @writes as cancel
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, ends, dead
local max, last = tonumber(ARGV[4]), math.max(seq, us - 1)
local found, more = oldest_dead(read_filter(5), max)
local changed = {}
for _, job in ipairs(found) do
  local number = close_id(job)
  end_job(job, 2)
  note_change(changed, job, number)
end
finish()
return { #found, more and 1 or 0, last, changed }
