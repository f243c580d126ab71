#!lua flags=allow-oom
-- retry: reserved → delayed, or ready when the delay is 0; one failure more, strikes cleared, the attempt kept.
-- @keys P
-- @args per lease: topic, tag+id, version, token, delay (whole ms), attempt (JSON)
-- @returns per lease: 1 retried, 0 lost
-- @writes attempts, the lease, then record, place
-- @include clock, numbers, topics, jobs, queues, alerts, moves, leases, aside
local answers = {}
for i = 4, #ARGV, 6 do
  local job = leased(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
  if job then
    local delay = tonumber(ARGV[i + 4])
    add_attempt(job, ARGV[i + 5])
    leave_place(job)
    job.failures, job.strikes = job.failures + 1, 0
    job.due = delay == 0 and now or now + delay + 1
    write_record(job)
    wait_again(job)
  end
  answers[#answers + 1] = job and 1 or 0
end
finish()
return answers
