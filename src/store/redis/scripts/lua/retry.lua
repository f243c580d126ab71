#!lua flags=allow-oom
-- retry: makes reserved jobs delayed, or ready with delay 0; strikes cleared. With an attempt one failure
--   more, and the attempt kept; with a block the job has these options.
-- @keys P
-- @args the leases (shared/leases.lua); number: the delay (whole ms); attempt: length (2) and extension
--   block, '' = as it is; JSON of the attempt, '' = none counts
-- @returns per lease a byte: 1 retried, 0 lost; with a journal its change follows a 1
-- @writes attempts, the lease, then record, its set
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, leases
local answer = finish_leases(function(job, delay, block_and_attempt)
  local block, at = struct.unpack('>I2c0', block_and_attempt)
  local attempt = block_and_attempt:sub(at)
  if #attempt > 0 then add_attempt(job, attempt) end
  leave_place(job)
  if #attempt > 0 then job.failures = job.failures + 1 end
  job.strikes = 0
  job.due = delay == 0 and now or now + delay + 1
  if #block > 0 then set_extension(job, block) end
  write_record(job)
  wait_again(job)
end)
finish()
return answer
