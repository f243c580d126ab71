#!lua flags=allow-oom
-- alert-settle: settles alerts, or returns claims.
-- @keys P
-- @args as (0 owed, 2 sent, 3 `nobody`), versions
-- @returns how many alerts changed
-- @writes per alert: the set of its old state, record, the set of its new one; the topic's window
-- @include clock, numbers, topics, jobs, alerts
local as = tonumber(ARGV[4])
local count = 0
for i = 5, #ARGV do
  local alert = find_alert(tonumber(ARGV[i]))
  if alert and alert.state < 2 then
    count = count + 1
    local job = find_in(alert.no, alert.tid)
    if as == 0 then
      leave_state(alert)
      make_owed(alert)
    elseif job and job.state == 3 and job.version == alert.version then
      leave_state(alert)
      alert.state, alert.claimed_until = as, 0
      write_alert(alert)
      call('ZADD', P .. ':os', alert.dead_at, version_key(alert.version))
    else
      remove_alert(alert)
    end
    if as == 2 then call('HSET', P .. ':ot', alert.no, now) end
  end
end
return count
