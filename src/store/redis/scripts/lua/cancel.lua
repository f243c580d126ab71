#!lua flags=allow-oom
-- cancel: removes jobs in any state.
-- @keys P
-- @args how they end (code); per job: topic, tag+id
-- @returns per job a byte: 0 absent, 1 cancelled, 2 cancelled while reserved; with a journal the change
--   of a cancelled one follows
-- @writes the set of its state, then record, body, history
-- @include list, clock, numbers, topics, jobs, queues, alerts, moves, ends, quarantine
local answers = {}
for i = 5, #ARGV, 2 do
  local job = find(ARGV[i], ARGV[i + 1])
  if job then
    answers[#answers + 1] = (job.state == 2 and '\2' or '\1') .. change_of(job)
    end_job(job, tonumber(ARGV[4]))
  else
    answers[#answers + 1] = '\0'
  end
end
finish()
return table.concat(answers)
