#!lua flags=allow-oom
-- purge-topic: removes jobs of one topic, whatever their state. Leases are lost; owed alerts stay owed.
-- @keys P
-- @args topic, max
-- @returns purged, 1 when more are left
-- @writes as cancel
-- @include clock, numbers, topics, jobs, queues, alerts, moves, ends
local no = topic_number(ARGV[4])
local max = tonumber(ARGV[5])
if not no then return { 0, 0 } end
local found = {}
for _, key in ipairs({ ':d:', ':r:0:', ':r:1:', ':r:2:', ':x:' }) do
  if #found <= max then
    for _, entry in ipairs(call('ZRANGE', P .. key .. no, 0, max - #found)) do found[#found + 1] = (tid_of(entry)) end
  end
end
local at = 0
repeat
  local piece = #found <= max and call('ZRANGE', P .. ':l', at, at + 999) or {}
  for _, member in ipairs(piece) do
    local lease = read_lease(member)
    if lease.no == no then found[#found + 1] = lease.tid end
  end
  at = at + #piece
until #piece == 0
local count = math.min(#found, max)
for i = 1, count do end_job(find_in(no, found[i]), 2, '') end
finish()
return { count, #found > count and 1 or 0 }
