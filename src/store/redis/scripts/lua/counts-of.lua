#!lua flags=no-writes,allow-oom
-- countsOf: counts the jobs of some topics by state, and finds their oldest overdue jobs.
-- @keys P
-- @args most overdue jobs; topics
-- @returns as counts
-- @include clock, numbers, topics, jobs, overdue
local names = {}
for i = 5, #ARGV do names[i - 4] = ARGV[i] end
learn_numbers(names)
local reserved = leases_by_topic()
local answer = { now, {} }
for _, name in ipairs(names) do
  local no = topic_number(name)
  if no then
    local ready = 0
    for prio = 0, 2 do
      local key = P .. ':r:' .. prio .. ':' .. no
      note_head(key, no)
      ready = ready + call('ZCARD', key)
    end
    local key = P .. ':d:' .. no
    note_head(key, no)
    local delayed, dead = call('ZCARD', key), call('ZCARD', P .. ':x:' .. no)
    if delayed + dead + ready + (reserved[no] or 0) > 0 then
      answer[#answer + 1] = { name, delayed, ready, reserved[no] or 0, dead }
    end
  end
end
answer[2] = oldest_heads()
return answer
