#!lua flags=allow-oom
-- history-forget: removes old history entries, the oldest end first.
-- @keys P
-- @args max, age (ms): removes older ones[, number of entries to skip: examines the further ones of any age,
--   and spares only the younger ends of schedules]
-- @returns forgotten, 1 when more are left to examine
-- @writes record and attempts, then the index
-- @include clock
local max, age, skip = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
-- In a bucket that has lost changes, or that a move fills, the entries are tombstones.
if note or went_back or moving then return { 0, 0 } end
-- Places in the order of their ends.
local old = call('ZCOUNT', P .. ':e', '-inf', '(' .. string.format('%.0f', now - age))
local first, last = skip or 0, skip and call('ZCARD', P .. ':e') or old
local count = math.max(0, math.min(max, last - first))
local found = count > 0 and call('ZRANGE', P .. ':e', first, first + count - 1) or {}
local members, fields = {}, {}
for i, member in ipairs(found) do
  if first + i <= old or not is_tick(member:sub(11)) then
    members[#members + 1] = member
    fields[#fields + 1] = member:sub(8)
  end
end
if members[1] then
  call('HDEL', P .. ':h', unpack(fields))
  call('HDEL', P .. ':p', unpack(fields))
  call('ZREM', P .. ':e', unpack(members))
end
return { #members, last > first + count and 1 or 0 }
