#!lua flags=allow-oom
-- bury: reserved → dead, one failure more, strikes cleared, the attempt kept, and its alert owed.
-- @keys P
-- @args the leases (shared/leases.lua); number: that of the reason
-- @returns a byte per lease: 1 buried, 0 lost
-- @writes attempts, the lease, then what has happened to it, its places among the dead, the alert
-- @include clock, numbers, topics, jobs, queues, alerts, moves, leases, aside
-- Why: one step, so that no dead letter is without its alert.
local answer = finish_leases(function(job, reason, attempt)
  add_attempt(job, attempt)
  -- What leaves is found by the token, what stays has none.
  job.failures, job.strikes = job.failures + 1, 0
  bury(job, reason, attempt)
end)
finish()
return answer
