#!lua flags=allow-oom
-- dead-expire: removes dead letters whose time is over and whose alert is settled, oldest death first.
-- @keys P
-- @args max, age (ms): older ones go
-- @returns expired, 1 when more have
-- @writes as cancel
-- @include clock, numbers, topics, jobs, queues, alerts, moves, ends, aside
-- Why: from the settled alerts, each of which has its dead letter: those whose alert cannot be sent for weeks are not looked
--   through each time.
local max = tonumber(ARGV[4])
local function is_settled(alert) return alert.state >= 2 end

local found = call('ZRANGEBYSCORE', P .. ':os', '-inf', '(' .. digits(now - tonumber(ARGV[5])), 'LIMIT', 0, max + 1)
local expired = 0
for i = 1, math.min(#found, max) do
  local alert = find_alert_at(':os', found[i], version_of(found[i]), is_settled)
  local job = alert and find_in(alert.no, alert.tid)
  if job and job.state == 3 and job.version == alert.version then
    end_job(job, 3)
    expired = expired + 1
  elseif alert then
    -- Of what it is about nothing can be read: fsck names that.
    keep_aside(topic_name(alert.no), alert.tid, part('o', alert_record(alert)))
    remove_alert(alert)
  end
end
finish()
return { expired, #found > max and 1 or 0 }
