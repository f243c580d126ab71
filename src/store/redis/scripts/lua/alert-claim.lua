#!lua flags=allow-oom
-- alert-claim: claims owed alerts of a topic for a bounded time, oldest death first.
-- @keys P
-- @args topic, claim (ms), max
-- @returns per alert: version, record
-- @writes per alert: the set of its old state, record, the claimed set
-- @include clock, numbers, topics, jobs, queues, alerts, quarantine
local no = topic_number(ARGV[4])
local until_ms, max = now + tonumber(ARGV[5]), tonumber(ARGV[6])
if not no then return {} end

local function is_claimed(alert) return alert.state == 1 end
local function is_owed(alert) return alert.state == 0 and alert.no == no end

-- Alerts whose claim has expired are owed again.
for _, claim in ipairs(call('ZRANGEBYSCORE', P .. ':oc', '-inf', digits(now))) do
  local its = #claim == 10 and struct.unpack('>I3', claim, 8)
  if its == no then
    local alert = find_alert_at(':oc', claim, version_of(claim), is_claimed)
    if alert then
      leave_state(alert)
      make_owed(alert)
    end
  end
end
local answer = {}
for _, member in ipairs(call('ZRANGE', P .. ':ow:' .. no, 0, max - 1)) do
  local alert = find_alert_at(':ow:' .. no, member, version_of(member), is_owed)
  if alert then
    leave_state(alert)
    alert.state, alert.claimed_until = 1, until_ms
    write_alert(alert)
    call('ZADD', P .. ':oc', digits(until_ms), claim_of(alert))
    answer[#answer + 1] = alert.version
    answer[#answer + 1] = alert_record(alert)
  end
end
keep_numbers()
return answer
