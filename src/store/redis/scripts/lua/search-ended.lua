#!lua flags=no-writes,allow-oom
-- search-ended: lists history entries before a place, the latest end first.
-- @keys P
-- @args topic ('' = all), end (code), since, until (due ms), place (ms, version), max, max entries to examine
-- @returns place of the last examined entry (ms, version; -1 = no more); per entry: topic, tag+id, record
-- @include numbers, topics, jobs, places
local topic, how = ARGV[4], tonumber(ARGV[5])
local since, upto = tonumber(ARGV[6]), tonumber(ARGV[7])
local most, look_max = tonumber(ARGV[10]), tonumber(ARGV[11])
local wanted = topic_number(topic)
if topic ~= '' and not wanted then return { -1, 0 } end
local key = P .. ':e'
local rank = rank_of(key, tonumber(ARGV[8]), tonumber(ARGV[9]))
local answer, looked = { -1, 0 }, 0
while rank > 0 do
  local first = math.max(0, rank - 100)
  local rows = call('ZRANGE', key, first, rank - 1, 'WITHSCORES')
  for i = #rows - 1, 1, -2 do
    if #answer - 2 == most or looked == look_max then return answer end
    looked = looked + 1
    answer[1], answer[2] = tonumber(rows[i + 1]), (struct.unpack('>I7', rows[i]))
    local no = struct.unpack('>I3', rows[i], 8)
    if not wanted or wanted == no then
      local record = call('HGET', P .. ':h', rows[i]:sub(8))
      local its, _, due
      if record and #record >= 35 then its, _, due = struct.unpack('>BI2I6', record) end
      if its == how and due >= since and due < upto then
        answer[#answer + 1] = { topic_name(no), rows[i]:sub(11), record }
      end
    end
  end
  rank = first
end
answer[1], answer[2] = -1, 0
return answer
