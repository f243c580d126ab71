#!lua flags=allow-oom
-- retry: makes reserved jobs delayed, or ready with delay 0; one failure more, strikes cleared, the attempt
--   kept.
-- @keys P
-- @args the leases (shared/leases.lua); number: the delay (whole ms)
-- @returns per lease a byte: 1 retried, 0 lost; with a journal its change follows a 1
-- @writes attempts, the lease, then record, its set
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, leases
local answer = finish_leases(function(job, delay, attempt)
  add_attempt(job, attempt)
  leave_place(job)
  job.failures, job.strikes = job.failures + 1, 0
  job.due = delay == 0 and now or now + delay + 1
  write_record(job)
  wait_again(job)
end)
finish()
return answer
