#!lua flags=allow-oom
-- history-forget: removes old history entries, the oldest end first.
-- @keys P
-- @args max, age (ms): removes older ones
-- @returns forgotten, 1 when more are older
-- @writes record and attempts, then the index
-- @include clock
local max, age = tonumber(ARGV[4]), tonumber(ARGV[5])
-- In a bucket that has lost changes the entries are tombstones.
if note or went_back then return { 0, 0 } end
local found = call('ZRANGEBYSCORE', P .. ':e', '-inf', '(' .. string.format('%.0f', now - age), 'LIMIT', 0, max + 1)
local count = math.min(#found, max)
if count == 0 then return { 0, #found > max and 1 or 0 } end
local fields = {}
for i = 1, count do fields[i] = found[i]:sub(8) end
call('HDEL', P .. ':h', unpack(fields))
call('HDEL', P .. ':p', unpack(fields))
call('ZREMRANGEBYRANK', P .. ':e', 0, count - 1)
return { count, #found > max and 1 or 0 }
