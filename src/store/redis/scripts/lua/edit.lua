#!lua
-- edit: gives delayed or ready jobs, and dead letters that it requeues, other content, as new versions of a
--   new origin.
-- @keys P
-- @args per job: topic, tag+id, the version that it must have, due (d<delay ms>, a<epoch ms> or '': it stays,
--   of a dead letter it becomes now), 1 = requeue a dead letter, flags as in push, tail, body that lies apart
-- @returns per job: kind (0 absent, 1 edited, 2 in flight, 3 dead, 4 it or a later version may be lost,
--   5 another version, 6 not dead), version, due, state (before; edited: after), change (edited; journal)
-- @writes its set, body, then record, its new set; numbers last
-- @include list, clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing
-- Why: the number of snoozes stays, because a snooze changes no version: the caller may have read an older
--   one. A requeue begins at 0. All versions of one origin have one body, so that a journal may merge their
--   changes in any order. Two numbers are drawn: a version that is not its origin may have attempts, and a
--   due time after its deadline.
local function kind_of(job, version, requeues)
  if must_wait(version) then return 4 end
  if not job then return note and 4 or 0 end
  if names_other(version, job) then return 5 end
  if requeues and job.state ~= 3 then return 6 end
  if job.state == 3 and not requeues then return 3 end
  return job.state == 2 and 2 or 1
end

local function due_of(job, when)
  if when == '' then return job.state == 3 and now or job.due end
  local ms = tonumber(when:sub(2))
  return when:byte(1) == 97 and math.max(ms, now) or ms == 0 and now or now + ms + 1
end

local function edit(job, due, flags, tail, apart)
  leave_place(job)
  local f = field_of(job.no, job.tid)
  if apart ~= '' then call('HSET', P .. ':b', f, apart)
  elseif job.apart then call('HDEL', P .. ':b', f) end
  local again = job.state ~= 3 and option_of(job, 7, 4)
  if job.state == 3 then job.failures, job.strikes = 0, 0 end
  job.origin = draw()
  job.version = draw()
  job.due, job.flags, job.tail, job.prio = due, flags, tail, flags % 4
  if again or option_of(job, 7, 4) then set_again(job, again) end
  write_record(job)
  wait_again(job)
end

local answers = {}
for i = 4, #ARGV, 8 do
  local job = find(ARGV[i], ARGV[i + 1])
  local kind = kind_of(job, ARGV[i + 2], ARGV[i + 4] == '1')
  if kind == 1 then edit(job, due_of(job, ARGV[i + 3]), tonumber(ARGV[i + 5]), ARGV[i + 6], ARGV[i + 7]) end
  answers[#answers + 1] = { kind, job and job.version or 0, job and job.due or 0, job and state_of(job) or 0,
    kind == 1 and change_of(job, job.version) or '' }
end
finish()
return answers
