#!lua flags=no-writes,allow-oom
-- dead-last: lists dead letters before a place, newest death first, with their causes only.
-- @keys P
-- @args topic ('' = all), place (ms, version), max
-- @returns storage clock (ms), place of the last examined one (ms, version; -1 = no more); per dead letter:
--   topic, deadAt, reason, last attempt since the last requeue as JSON ('' = none)
-- @include clock, numbers, topics, jobs, places, dead
local most = tonumber(ARGV[7])
local key, wanted = dead_keys({ topic = ARGV[4] })
local answer = { now, -1, 0 }
if not key then return answer end
local rank = rank_of(key, tonumber(ARGV[5]), tonumber(ARGV[6]))
local first = math.max(0, rank - most)
if rank == 0 then return answer end
local members = call('ZRANGE', key, first, rank - 1, 'WITHSCORES')
for i = #members - 1, 1, -2 do
  local no, tid = key_of_member(members[i], wanted)
  if no then
    local f = field_of(no, tid)
    local more = call('HGET', P .. ':m', f) or ''
    local is_whole = #more == 28
    local has_failed = is_whole and struct.unpack('>I2', more, 2) > 0
    local lines = has_failed and call('HGET', P .. ':p', f) or ''
    local reason = is_whole and more:byte(28) or 0
    answer[#answer + 1] = { topic_name(no), tonumber(members[i + 1]), reason, lines:match('[^\n]*$') }
  end
end
if first > 0 then answer[2], answer[3] = tonumber(members[2]), (struct.unpack('>I7', members[1])) end
return answer
