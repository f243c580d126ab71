#!lua
-- requeue: makes dead letters ready as new versions, whose attempts count from 1.
-- @keys P
-- @args per job: topic, tag+id, the version that it must have ('': any)
-- @returns per job: kind (0 absent, 1 requeued, 2 not dead, 4 it or a later version may be lost,
--   5 another version), version, due, state before, change (requeued; journal)
-- @writes the dead sets, then record, ready set; numbers last
-- @include list, clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing
local answers = {}
for i = 4, #ARGV, 3 do
  local job = find(ARGV[i], ARGV[i + 1])
  local state = job and state_of(job)
  local kind = must_wait(ARGV[i + 2]) and 4 or not job and (note and 4 or 0) or names_other(ARGV[i + 2], job) and 5 or state == 3 and 1 or 2
  if kind == 1 then revive(job) end
  answers[#answers + 1] = { kind, job and job.version or 0, job and job.due or 0, state or 0,
    kind == 1 and change_of(job, job.version) or '' }
end
finish()
return answers
