-- moves: how a job leaves its set and enters another, for every script that moves one.
-- Invariant: at the end of each script a job is in exactly one set; each move leaves the old one first.
local function leave_place(job)
  if job.state == 2 then
    call('ZREM', P .. lease_set(job), lease_of(job))
  elseif job.state == 3 then
    call('ZREM', P .. ':x', struct.pack('>I7', job.version) .. field_of(job.no, job.tid))
    call('ZREM', P .. ':x:' .. job.no, entry_of(job))
    call('ZREM', P .. ':y:' .. job.no, entry_of(job))
    end_alert(job.version)
  elseif is_ready(job) then
    take_ready(job)
  else
    take_delayed(job)
  end
end

-- Attempts are lines of JSON, oldest first.
local function add_attempt(job, attempt)
  local f = field_of(job.no, job.tid)
  local list = call('HGET', P .. ':p', f)
  if list then
    list = list .. '\n' .. attempt
    local _, lines = list:gsub('\n', '\n')
    for _ = 1, lines + 1 - limits.attemptsKept do list = list:sub(list:find('\n', 1, true) + 1) end
  end
  call('HSET', P .. ':p', f, list or attempt)
end

-- '' = none since the last requeue, which sets the failures to 0: an earlier one says nothing about what
-- followed.
local function last_attempt(job)
  if job.failures == 0 then return '' end
  local list = call('HGET', P .. ':p', field_of(job.no, job.tid))
  return list and list:match('[^\n]*$') or ''
end

-- → delayed or ready by job.due, without a lease; the caller sets job.failures and job.strikes.
local function wait_again(job)
  job.state = 0
  write_more(job)
  put_waiting(job)
end

-- reserved → ready at its old place: its due time is unchanged.
local function back_in_place(job)
  leave_place(job)
  job.state = 0
  write_more(job)
  put_ready(job)
end

-- → dead, with an owed alert. The number of its death takes the place of the token.
local function bury(job, reason, attempt)
  leave_place(job)
  job.token = draw()
  job.state, job.dead_at, job.reason = 3, now, reason
  write_more(job)
  call('ZADD', P .. ':x', now, struct.pack('>I7', job.version) .. field_of(job.no, job.tid))
  call('ZADD', P .. ':x:' .. job.no, now, entry_of(job))
  call('ZADD', P .. ':y:' .. job.no, job.due, entry_of(job))
  owe_alert(job, attempt)
end

-- Gives the job a new version and due time: leases of the old version are lost.
local function make_anew(job, due)
  leave_place(job)
  job.version, job.due = draw(), due
  write_record(job)
  wait_again(job)
end

-- dead → ready as a new version, without failures, strikes and snoozes. Its attempts stay, for readers.
local function revive(job)
  leave_place(job)
  job.version, job.due, job.failures, job.strikes = draw(), now, 0, 0
  if option_of(job, 7, 4) then set_again(job) end
  write_record(job)
  wait_again(job)
end

-- Adds topic, tag+id and change of a job to a list, for a journal.
local function note_change(changed, job, number)
  if not writer then return end
  local n = #changed
  changed[n + 1], changed[n + 2], changed[n + 3] = topic_name(job.no), job.tid, change_of(job, number)
end
