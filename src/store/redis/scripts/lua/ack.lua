#!lua flags=allow-oom
-- ack: removes acked jobs, reserved → gone, and pushes their outcome jobs.
-- @keys P
-- @args the leases (shared/leases.lua); attempt: JSON, a first attempt packed as in stored-codes.ts, ''
--   = keep none; outcome jobs (shared/outcomes.lua)
-- @returns per lease a byte: 1 acked, 2 acked and its outcome job pushed, 0 lost; with a journal the change
--   of the lease's job follows a 1 or 2, and after a 2 that of the outcome job
-- @writes outcome jobs as push, the lease, then record, body, history
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, ends, outcomes, leases
local jobs, attempts = {}, {}
local answer = finish_leases(function(job, _, attempt)
  jobs[#jobs + 1] = job
  attempts[#jobs] = attempt
end, false, true, push_outcome)
end_jobs(jobs, 0, attempts)
finish()
return answer
