#!lua flags=allow-oom
-- bury: makes a job a dead letter, reserved → dead, with an owed alert; with one failure more, if an attempt
--   was made. Pushes its outcome job.
-- @keys P
-- @args the leases (shared/leases.lua); number: code of the reason; outcome jobs (shared/outcomes.lua)
-- @returns as ack
-- @writes attempts, the lease, then the state record, the dead sets, the alert; outcome jobs as push
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, outcomes, leases
-- Why: one step, so that no dead letter is without its alert.
local answer = finish_leases(function(job, reason, attempt)
  job.strikes = reason == limits.poison and #attempt == 0 and job.strikes + 1 or 0
  if #attempt > 0 then
    add_attempt(job, attempt)
    job.failures = job.failures + 1
  end
  bury(job, reason, #attempt > 0 and attempt or last_attempt(job))
end, false, false, push_outcome)
finish()
return answer
