#!lua flags=no-writes,allow-oom
-- countQuarantined: counts the quarantined records, with some examples.
-- @keys P
-- @args max examples
-- @returns count; per example: topic, tag+id
-- @include jobs
local count, most = call('HLEN', P .. ':q'), tonumber(ARGV[4])
local answer = { count }
local found = count > 0 and call('HSCAN', P .. ':q', 0, 'COUNT', most)[2] or {}
for i = 2, math.min(#found, 2 * most), 2 do
  local topic, tid = read_quarantined(found[i])
  answer[#answer + 1] = topic
  answer[#answer + 1] = tid
end
return answer
