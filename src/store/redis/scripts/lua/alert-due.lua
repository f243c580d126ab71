#!lua flags=no-writes,allow-oom
-- alert-due: names the topics that are owed an alert and had no mail within a window, the longest owed first.
-- @keys P
-- @args window (ms)
-- @returns topics with owed alerts: name, deadAt and version of the longest owed alert; topics with a mail in
--   the window
-- @include clock, numbers, topics, alerts
local window = tonumber(ARGV[4])
local waiting = {}
local function waits(no, dead_at, version)
  local first = waiting[no]
  if not first or dead_at < first.dead_at or (dead_at == first.dead_at and version < first.version) then
    waiting[no] = { no = no, dead_at = dead_at, version = version }
  end
end
for _, no in ipairs(numbers_in_use()) do
  local first = call('ZRANGE', P .. ':ow:' .. no, 0, 0, 'WITHSCORES')
  if first[1] then waits(no, tonumber(first[2]), #first[1] >= 7 and struct.unpack('>I7', first[1]) or 0) end
end
-- Alerts with an expired claim count as owed; the next claim of their topic moves them.
for _, claim in ipairs(call('ZRANGEBYSCORE', P .. ':oc', '-inf', digits(now))) do
  local version, no = 0, nil
  if #claim == 10 then version, no = struct.unpack('>I7I3', claim) end
  local alert = no and find_alert(version)
  -- A claim without its alert also names its topic: the next claim quarantines it.
  if no then waits(no, alert and alert.dead_at or 0, version) end
end
local owed, told = {}, {}
for no, first in pairs(waiting) do owed[#owed + 1] = { topic_name(no), first.dead_at, first.version } end
local times = call('HGETALL', P .. ':ot')
for i = 1, #times, 2 do
  local age = now - tonumber(times[i + 1])
  -- A window from the future comes from a wrong clock: it must not suppress mails.
  if age >= 0 and age < window then told[#told + 1] = topic_name(tonumber(times[i])) end
end
return { owed, told }
