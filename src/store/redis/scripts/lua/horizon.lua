#!lua flags=no-writes,allow-oom
-- horizon: counts the waiting jobs of some topics by due time.
-- @keys P
-- @args number of topics to skip, and to count, of those in use; number of ends, ends of the classes (ms from
--   now), topics (given: counts these)
-- @returns 1 when topics follow; jobs of each class, and after the last end
-- @include clock, numbers, topics
local skipped, most, ends = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local numbers = {}
if #ARGV > 6 + ends then
  for i = 7 + ends, #ARGV do numbers[#numbers + 1] = topic_number(ARGV[i]) end
else
  numbers = call('ZRANGEBYSCORE', P .. ':u', 0, 0, 'LIMIT', skipped, most + 1)
end
local answer = { #numbers > most and 1 or 0 }
for class = 1, ends + 1 do answer[class + 1] = 0 end
for i = 1, math.min(#numbers, most) do
  local no = string.format('%.0f', numbers[i])
  local key = P .. ':d:' .. no
  local left = call('ZCARD', key)
  for prio = 0, 2 do answer[2] = answer[2] + call('ZCARD', P .. ':r:' .. prio .. ':' .. no) end
  local from = '-inf'
  for class = 1, ends do
    if left == 0 then break end
    local to = digits(now + tonumber(ARGV[6 + class]))
    local count = call('ZCOUNT', key, from, to)
    answer[class + 1], left, from = answer[class + 1] + count, left - count, '(' .. to
  end
  answer[ends + 2] = answer[ends + 2] + left
end
return answer
