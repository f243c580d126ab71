#!lua flags=allow-oom
-- recoverOwners: recovers leases of an instance's dead processes before they expire.
-- @keys P
-- @args max, instance, which ('dead' or 'living'), incarnations
-- @returns as recover
-- @writes as recover
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, owners, strikes
local max = tonumber(ARGV[4])
local named = {}
local youngest = #ARGV < 7 and math.huge or 0
for i = 7, #ARGV do
  local incarnation = tonumber(ARGV[i])
  named[incarnation] = true
  youngest = math.max(youngest, incarnation)
end
local function is_wanted(incarnation)
  if ARGV[6] == 'dead' then return named[incarnation] or false end
  -- An incarnation above all named ones started after the list was made: it is spared.
  return not named[incarnation] and incarnation < youngest
end
return strike(leases_of(tonumber(ARGV[5]), is_wanted, max + 1), max)
