#!lua flags=allow-oom
-- alert-claim: takes owed entries of a topic, oldest death first, for a bounded time.
-- @keys P
-- @args topic, claim (ms), max
-- @returns per entry: version, record
-- @writes per entry: the set of its old state, record, the claimed set
-- @include clock, numbers, topics, alerts
local no = topic_number(ARGV[4])
local until_ms, max = now + tonumber(ARGV[5]), tonumber(ARGV[6])
if not no then return {} end

-- Those whose claim ran out are owed again.
for _, claim in ipairs(call('ZRANGEBYSCORE', P .. ':oc', '-inf', digits(now))) do
  local version, its = struct.unpack('>I7I3', claim)
  if its == no then
    local alert = find_alert(version)
    leave_state(alert)
    make_owed(alert)
  end
end
local answer = {}
for _, member in ipairs(call('ZRANGE', P .. ':ow:' .. no, 0, max - 1)) do
  local alert = find_alert((struct.unpack('>I7', member)))
  leave_state(alert)
  alert.state, alert.claimed_until = 1, until_ms
  write_alert(alert)
  call('ZADD', P .. ':oc', digits(until_ms), claim_of(alert))
  answer[#answer + 1] = alert.version
  answer[#answer + 1] = alert_record(alert)
end
return answer
