#!lua flags=allow-oom
-- releaseUnheld: gives back leases that their owner does not know it has (the answer to a reserve was lost); no strike.
-- @keys P
-- @args instance, incarnation, tokens that it holds
-- @returns how many were given back
-- @writes per lease: the lease, then what has happened to the job, its place
-- @include clock, numbers, topics, jobs, queues, alerts, moves, owners
-- Why: reserve is not repeated by a client; this mends a lost answer before its leases run out.
local mine = tonumber(ARGV[5])
local held = {}
for i = 6, #ARGV do held[tonumber(ARGV[i])] = true end
local unheld = leases_of(tonumber(ARGV[4]), function(incarnation, token)
  return incarnation == mine and not held[token]
end, math.huge)
for _, member in ipairs(unheld) do
  local lease = read_lease(member)
  back_in_place(find_in(lease.no, lease.tid))
end
finish()
return #unheld
