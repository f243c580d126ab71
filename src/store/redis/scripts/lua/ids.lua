#!lua flags=no-writes,allow-oom
-- ids: lists one piece of the jobs in the bucket.
-- @keys P
-- @args cursor ('0' = from the start)
-- @returns next cursor ('0' = the end); per job: topic, tag+id
-- @include clock, numbers, topics
-- Why: bounded pieces between other calls. A job that exists from the first piece to the last is in one of
--   them.
local found = call('HSCAN', P .. ':j', ARGV[4], 'COUNT', 200)
local answer = { found[1] }
for i = 1, #found[2], 2 do
  local f = found[2][i]
  answer[#answer + 1] = topic_name((struct.unpack('>I3', f)))
  answer[#answer + 1] = f:sub(4)
end
return answer
