#!lua flags=allow-oom
-- reschedule: gives delayed or ready jobs another due time, as new versions.
-- @keys P
-- @args per job: topic, tag+id, the version that it must have ('': any), due (d<delay ms> or a<epoch ms>)
-- @returns per job: kind (0 absent, 1 rescheduled, 2 in flight, 3 dead, 4 it or a later version may be lost,
--   5 another version), version, due, state (0 delayed, 1 ready), change (rescheduled; journal)
-- @writes its set, then record, its new set; numbers last
-- @include list, clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing
local answers = {}
for i = 4, #ARGV, 4 do
  local job = find(ARGV[i], ARGV[i + 1])
  local when = ARGV[i + 3]
  local kind = must_wait(ARGV[i + 2]) and 4 or not job and (note and 4 or 0) or names_other(ARGV[i + 2], job) and 5 or job.state == 3 and 3 or job.state == 2 and 2 or 1
  if kind == 1 then
    local ms = tonumber(when:sub(2))
    make_anew(job, when:byte(1) == 97 and math.max(ms, now) or ms == 0 and now or now + ms + 1)
  end
  answers[#answers + 1] = { kind, job and job.version or 0, job and job.due or 0, job and job.due > now and 0 or 1,
    kind == 1 and change_of(job, job.version) or '' }
end
finish()
return answers
