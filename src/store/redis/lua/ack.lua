#!lua flags=allow-oom
-- ack: reserved → gone.
-- @keys P
-- @args per lease: topic, tag+id, version, token, attempt (JSON; the only one of a job as first-attempt.ts packs it; '' = none is to be kept)
-- @returns per lease: 1 acked, 0 lost
-- @writes the lease, then record, body, history
-- @include clock, numbers, topics, jobs, queues, alerts, moves, ends, leases, aside
local answers = {}
for i = 4, #ARGV, 5 do
  local job = leased(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
  if job then end_job(job, 0, ARGV[i + 4]) end
  answers[#answers + 1] = job and 1 or 0
end
finish()
return answers
