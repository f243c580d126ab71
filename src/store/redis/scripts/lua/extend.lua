#!lua flags=allow-oom
-- extend: moves the ends of leases of pulled jobs; their tokens stay.
-- @keys P
-- @args the leases (shared/leases.lua); number: ms from now to the new end; attempt is unused
-- @returns per lease a byte, 1 extended, 0 lost, and the new end (ms, 6)
-- @writes the score of the lease
-- @include clock, numbers, topics, jobs, queues, alerts, moves, leases, quarantine
-- Why: only pulled jobs: no attempt of a notifier may outlive its lease.
local answers = {}
for i, lease in ipairs(leases_shown()) do
  local job = leased(lease)
  local is_pulled = job and job.instance == 0
  if is_pulled then call('ZADD', P .. ':k', digits(now + lease.number), lease_of(job)) end
  answers[i] = struct.pack('>BI6', is_pulled and 1 or 0, is_pulled and now + lease.number or 0)
end
finish()
return table.concat(answers)
