#!lua flags=no-writes,allow-oom
-- lacks: tells which jobs the bucket does not have. An unreadable one counts as lacking.
-- @keys P
-- @args one text, per job: length (1) and topic, length (2) and tag+id, version (7)
-- @returns one text, per job: 1 = neither this version nor a higher one is live or dead here
-- @include list, clock, numbers, topics, jobs
local answers, at = {}, 1
while at <= #ARGV[4] do
  local topic, tid, version
  topic, tid, version, at = struct.unpack('>Bc0 I2c0 I7', ARGV[4], at)
  local job = find(topic, tid)
  answers[#answers + 1] = string.char(job and job.version >= version and 0 or 1)
end
return table.concat(answers)
