#!lua flags=allow-oom
-- ack: removes acked jobs, reserved → gone.
-- @keys P
-- @args the leases (shared/leases.lua); attempt: JSON, a first attempt packed as in first-attempt.ts, ''
--   = keep none
-- @returns per lease a byte: 1 acked, 0 lost; with a journal its change follows a 1
-- @writes the lease, then record, body, history
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, ends, leases
local jobs, attempts = {}, {}
local answer = finish_leases(function(job, _, attempt)
  jobs[#jobs + 1] = job
  attempts[#jobs] = attempt
end, false, true)
end_jobs(jobs, 0, attempts)
finish()
return answer
