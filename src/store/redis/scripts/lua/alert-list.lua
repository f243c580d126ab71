#!lua flags=no-writes,allow-oom
-- alert-list: lists alerts before a place, newest death first.
-- @keys P
-- @args limit, place (ms, version)
-- @returns storage clock (ms), 1 when more follow, number of all alerts; per alert: topic, version, record
-- @include clock, numbers, topics, alerts, places
local limit = tonumber(ARGV[4])
local rank = rank_of(P .. ':oa', tonumber(ARGV[5]), tonumber(ARGV[6]))
local answer = { now, rank > limit and 1 or 0, call('ZCARD', P .. ':oa') }
if rank == 0 then return answer end
local members = call('ZRANGE', P .. ':oa', math.max(0, rank - limit), rank - 1)
for i = #members, 1, -1 do
  local alert = #members[i] >= 7 and find_alert((struct.unpack('>I7', members[i])))
  if alert then answer[#answer + 1] = { topic_name(alert.no), alert.version, alert_record(alert) } end
end
return answer
