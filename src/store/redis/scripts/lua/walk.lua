#!lua flags=no-writes,allow-oom
-- walk: lists one piece of the jobs in the bucket, live and dead.
-- @keys P
-- @args cursor ('0' = from the start), jobs
-- @returns next cursor ('0' = the end); per job: topic, tag+id, 1 = its alert is settled, record, state
--   record
-- @include clock, numbers, topics, jobs, alerts
-- Why: a body that lies apart is not returned, so the bytes of a piece are bounded by its jobs. A job that
--   exists from the first piece to the last is in one.
local found = call('HSCAN', P .. ':j', ARGV[4], 'COUNT', ARGV[5])
local answer = { found[1] }
for i = 1, #found[2], 2 do
  local f, record = found[2][i], found[2][i + 1]
  if #f > 3 then
    local no = struct.unpack('>I3', f)
    local more = call('HGET', P .. ':m', f)
    if is_whole(record, more) and topic_name(no) ~= '?' then
      local job = job_of(no, f:sub(4), record, more)
      local alert = job.state == 3 and find_alert(job.version)
      answer[#answer + 1] = { topic_name(no), job.tid, alert and alert.state >= 2 and 1 or 0, record, more or '' }
    end
  end
end
return answer
