#!lua flags=allow-oom
-- releaseUnheld: releases leases that their owner does not hold (the reply of a reserve was lost); no strike.
-- @keys P
-- @args instance, incarnation, tokens that it holds
-- @returns how many were released
-- @writes per lease: the lease, then the state record, its set
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, owners
-- Why: a client never repeats reserve; this repairs a lost reply before its leases expire.
local mine = tonumber(ARGV[5])
local held = {}
for i = 6, #ARGV do held[tonumber(ARGV[i])] = true end
local unheld = leases_of(tonumber(ARGV[4]), function(incarnation, token)
  return incarnation == mine and not held[token]
end, math.huge)
local released = 0
for _, member in ipairs(unheld) do
  local job = find_at_lease(':l', member)
  if job then
    back_in_place(job)
    released = released + 1
  end
end
finish()
return released
