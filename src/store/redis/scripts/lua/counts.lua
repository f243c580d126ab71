#!lua flags=no-writes,allow-oom
-- counts: counts the jobs of each topic by state, and finds the oldest overdue jobs.
-- @keys P
-- @args most overdue jobs; number of held topics, held topics, whose due jobs do not count as overdue; pulled
--   topics, whose ready jobs do not
-- @returns storage clock (ms); the earliest ready, or due and delayed, job of each topic, the earliest first:
--   due time, topic, tag+id; per topic with jobs: name, delayed, ready, reserved, dead
-- @include clock, numbers, topics, jobs, overdue
-- Why: sizes of sets are exact, so no counter can drift.
if call('EXISTS', P .. ':j', P .. ':d', P .. ':l', P .. ':k', P .. ':a:0', P .. ':a:1', P .. ':a:2') == 0 then return { now, {} } end
local held, pulled = {}, {}
for i = 6, #ARGV do (i < 6 + tonumber(ARGV[5]) and held or pulled)[ARGV[i]] = true end
local reserved = leases_by_topic()
local ready = {}
for prio = 0, 2 do
  for _, member in ipairs(call('ZRANGE', P .. ':a:' .. prio, 0, -1)) do
    local no = tonumber(member)
    local key = P .. ':r:' .. prio .. ':' .. no
    ready[no] = (ready[no] or 0) + call('ZCARD', key)
    local name = topic_name(no)
    if not held[name] and not pulled[name] then note_head(key, no) end
  end
end
-- Notes the first due heads of topics that are not held. A damaged head hides none after it. Held topics may
-- be many, so the heads are read in pieces.
local function note_due_heads(most)
  for at = 0, math.huge, 200 do
    local heads = call('ZRANGE', P .. ':d', at, at + 199, 'WITHSCORES')
    for i = 1, #heads, 2 do
      if (tonumber(heads[i + 1]) or math.huge) > now then return end
      local no = #heads[i] == 10 and struct.unpack('>I3', heads[i], 8)
      if no and not held[topic_name(no)] and note_head(P .. ':d:' .. digits(no), no) then most = most - 1 end
      if most == 0 then return end
    end
    if #heads < 400 then return end
  end
end
note_due_heads(heads_max)
local answer = { now, oldest_heads() }
for _, no in ipairs(numbers_in_use()) do
  local delayed, dead = call('ZCARD', P .. ':d:' .. no), call('ZCARD', P .. ':x:' .. no)
  if delayed + dead + (ready[no] or 0) + (reserved[no] or 0) > 0 then
    answer[#answer + 1] = { topic_name(no), delayed, ready[no] or 0, reserved[no] or 0, dead }
  end
end
return answer
