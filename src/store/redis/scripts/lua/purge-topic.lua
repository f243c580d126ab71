#!lua flags=allow-oom
-- purge-topic: removes jobs of one topic in any state; leases are lost, owed alerts stay owed.
-- @keys P
-- @args topic, max
-- @returns purged, 1 when more are left; with a journal topic, tag+id and change of each job
-- @writes as cancel
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, ends
local no = topic_number(ARGV[4])
local max = tonumber(ARGV[5])
if not no then return { 0, 0, {} } end
local found = {}
for _, key in ipairs({ ':d:', ':r:0:', ':r:1:', ':r:2:', ':x:' }) do
  if #found <= max then
    for _, entry in ipairs(call('ZRANGE', P .. key .. no, 0, max - #found)) do
      found[#found + 1] = function() return find_at_entry(key .. no, no, entry) end
    end
  end
end
for _, set in ipairs({ ':l', ':k' }) do
  local at = 0
  repeat
    local piece = #found <= max and call('ZRANGE', P .. set, at, at + 999) or {}
    for _, member in ipairs(piece) do
      if is_lease(member) and read_lease(member).no == no then
        found[#found + 1] = function() return find_at_lease(set, member) end
      end
    end
    at = at + #piece
  until #piece == 0
end
local purged, changed = 0, {}
for i = 1, math.min(#found, max) do
  local job = found[i]()
  if job then
    local number = close_id(job)
    end_job(job, 2)
    note_change(changed, job, number)
    purged = purged + 1
  end
end
finish()
return { purged, #found > max and 1 or 0, changed }
