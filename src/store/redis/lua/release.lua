#!lua flags=allow-oom
-- release: reserved → ready at its old place; no attempt, no strike.
-- @keys P
-- @args per lease: topic, tag+id, version, token
-- @returns per lease: 1 released, 0 lost
-- @writes the lease, then what has happened to it, place
-- @include clock, numbers, topics, jobs, queues, alerts, moves, leases, aside
local answers = {}
for i = 4, #ARGV, 4 do
  local job = leased(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
  if job then back_in_place(job) end
  answers[#answers + 1] = job and 1 or 0
end
finish()
return answers
