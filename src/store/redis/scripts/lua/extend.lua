#!lua flags=allow-oom
-- extend: moves the ends of leases of pulled jobs; their tokens stay.
-- @keys P
-- @args the leases (shared/leases.lua); number: ms from now to the new end; attempt is unused
-- @returns per lease a byte, 1 extended, 0 lost, and the new end (ms, 6)
-- @writes the score of the lease
-- @include clock, numbers, topics, jobs, queues, alerts, moves, leases, quarantine
-- Why: only pulled jobs: no attempt of a notifier may outlive its lease.
local answer = each_lease(function(job, lease_ms)
  if not job or job.instance ~= 0 then return struct.pack('>BI6', 0, 0) end
  call('ZADD', P .. ':k', digits(now + lease_ms), lease_of(job))
  return struct.pack('>BI6', 1, now + lease_ms)
end)
finish()
return answer
