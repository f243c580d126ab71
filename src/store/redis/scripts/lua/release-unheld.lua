#!lua flags=allow-oom
-- releaseUnheld: gives back leases that their owner does not know it has (the answer to a reserve was lost); no strike.
-- @keys P
-- @args instance, incarnation, tokens that it holds
-- @returns how many were given back
-- @writes per lease: the lease, then what has happened to the job, its place
-- @include clock, numbers, topics, jobs, queues, alerts, moves, aside, owners
-- Why: reserve is not repeated by a client; this mends a lost answer before its leases run out.
local mine = tonumber(ARGV[5])
local held = {}
for i = 6, #ARGV do held[tonumber(ARGV[i])] = true end
local unheld = leases_of(tonumber(ARGV[4]), function(incarnation, token)
  return incarnation == mine and not held[token]
end, math.huge)
local released = 0
for _, member in ipairs(unheld) do
  local job = find_at_lease(member)
  if job then
    back_in_place(job)
    released = released + 1
  end
end
finish()
return released
