#!lua flags=allow-oom
-- bury: reserved → dead, one failure more, strikes cleared, the attempt kept, and its alert owed.
-- @keys P
-- @args per lease: topic, tag+id, version, token, reason (its number), attempt (JSON)
-- @returns per lease: 1 buried, 0 lost
-- @writes attempts, the lease, then what has happened to it, its places among the dead, the alert
-- @include clock, numbers, topics, jobs, queues, alerts, moves, leases, aside
-- Why: one step, so that no dead letter is without its alert.
local answers = {}
for i = 4, #ARGV, 6 do
  local job = leased(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
  if job then
    add_attempt(job, ARGV[i + 5])
    -- What leaves is found by the token, what stays has none.
    local failures = job.failures + 1
    job.failures, job.strikes = failures, 0
    bury(job, tonumber(ARGV[i + 4]), ARGV[i + 5])
  end
  answers[#answers + 1] = job and 1 or 0
end
finish()
return answers
