#!lua flags=no-writes,allow-oom
-- search-id: finds the jobs or history entries of an id, in one topic or in all.
-- @keys P
-- @args topic ('' = all), tag+id, what ('job' or 'entry')
-- @returns jobs: topic, tag+id, state, record, state record; entries: topic, tag+id, record
-- @include clock, numbers, topics, jobs, queues
local topic, tid = ARGV[4], ARGV[5]
local wanted = topic_number(topic)
local answer = {}
if topic ~= '' and not wanted then return answer end
for _, no in ipairs(wanted and { wanted } or numbers_in_use('+inf')) do
  local f = field_of(no, tid)
  if ARGV[6] == 'entry' then
    local record = call('HGET', P .. ':h', f)
    if record and #record >= 35 then answer[#answer + 1] = { topic_name(no), tid, record } end
  else
    local job = find_in(no, tid)
    if job then
      answer[#answer + 1] = { topic_name(no), tid, state_of(job), call('HGET', P .. ':j', f), call('HGET', P .. ':m', f) or '' }
    end
  end
end
return answer
