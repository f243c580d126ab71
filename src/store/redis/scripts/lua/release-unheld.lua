#!lua flags=allow-oom
-- releaseUnheld: releases leases that their owner does not hold (the reply of a reserve was lost); no strike.
-- @keys P
-- @args instance, incarnation, greatest token that it releases, tokens that it holds
-- @returns how many were released, how many unheld ones have a greater token, the last number
-- @writes per lease: the lease, then the state record, its set
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, owners
-- Why: a client never repeats reserve; this repairs a lost reply before its leases expire.
local mine = tonumber(ARGV[5])
local held = {}
local up_to = tonumber(ARGV[6])
for i = 7, #ARGV do held[tonumber(ARGV[i])] = true end
local left = 0
local unheld = leases_of(tonumber(ARGV[4]), function(incarnation, token)
  if incarnation ~= mine or held[token] then return false end
  if token > up_to then left = left + 1 end
  return token <= up_to
end, math.huge)
local released = 0
for _, member in ipairs(unheld) do
  local job = find_at_lease(':l', member)
  if job then
    back_in_place(job)
    released = released + 1
  end
end
local last = seq
finish()
return { released, left, digits(last) }
