#!lua flags=allow-oom
-- cancel: removes jobs in any state.
-- @keys P
-- @args how they end (code); per job: topic, tag+id, the version that it must have ('': any)
-- @returns per job a byte: 0 absent, 1 cancelled, 2 cancelled while reserved, 3 absent, but its end is
--   recorded (healing.lua), 128 another version, 129 a version is named and a later one may be lost; with a
--   journal a change follows 1 to 3
-- @writes the set of its state, then record, body, history
-- @include list, clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, ends
local answers, how = {}, tonumber(ARGV[4])
for i = 5, #ARGV, 3 do
  local job = find(ARGV[i], ARGV[i + 1])
  local version = ARGV[i + 2]
  if must_wait(version) then
    answers[#answers + 1] = '\129'
  elseif job and names_other(version, job) then
    answers[#answers + 1] = '\128'
  elseif job then
    local number = close_id(job)
    answers[#answers + 1] = (job.state == 2 and '\2' or '\1') .. change_of(job, number)
    end_job(job, how)
  elseif note then
    local number = draw()
    answers[#answers + 1] = '\3' .. leave_entry(topic_number_made(ARGV[i]), ARGV[i + 1], how, number, number)
  else
    answers[#answers + 1] = '\0'
  end
end
finish()
return table.concat(answers)
