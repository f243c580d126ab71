#!lua flags=allow-oom
-- dead-purge: removes dead letters, oldest death first; owed alerts stay owed.
-- @keys P
-- @args max, filter
-- @returns purged, 1 when more match, the bound of the filter, or the next number before the call;
--   with a journal topic, tag+id and change of each job
-- @writes as cancel
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, ends, dead
local max, filter = tonumber(ARGV[4]), read_filter(5)
local below = math.min(filter.below, seq + 1)
local found, more = oldest_dead(filter, max)
local changed = {}
for _, job in ipairs(found) do
  local number = close_id(job)
  end_job(job, 2)
  note_change(changed, job, number)
end
finish()
return { #found, more and 1 or 0, below, changed }
