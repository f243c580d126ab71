#!lua flags=allow-oom
-- dead-expire: removes dead letters whose time is over and whose alert is settled, oldest death first.
-- @keys P
-- @args max, before (ms)
-- @returns expired, 1 when more have
-- @writes as cancel
-- @include clock, numbers, topics, jobs, queues, alerts, moves, ends
-- Why: from the settled alerts, each of which has its dead letter: those whose alert cannot be sent for weeks are not looked
--   through each time.
local max = tonumber(ARGV[4])
local found = call('ZRANGEBYSCORE', P .. ':os', '-inf', '(' .. ARGV[5], 'LIMIT', 0, max + 1)
for i = 1, math.min(#found, max) do
  local alert = find_alert(version_of(found[i]))
  end_job(find_in(alert.no, alert.tid), 3, '')
end
finish()
return { math.min(#found, max), #found > max and 1 or 0 }
