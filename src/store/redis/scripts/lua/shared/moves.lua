-- moves: how a job leaves its place and where it goes, for every script that moves one. A job is in one place at every end of
-- a script: each move takes it out of the one before it puts it into the other.
local function leave_place(job)
  if job.state == 2 then
    call('ZREM', P .. ':l', lease_of(job))
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

-- Attempt records are lines of JSON, oldest first.
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

local function last_attempt(job)
  local list = call('HGET', P .. ':p', field_of(job.no, job.tid))
  return list and list:match('[^\n]*$') or ''
end

-- Delayed or ready again, without a lease, due when job.due says; job.failures and job.strikes are the caller's.
local function wait_again(job)
  job.state = 0
  write_more(job)
  put_waiting(job)
end

-- reserved → ready where it was: its due time has not changed.
local function back_in_place(job)
  leave_place(job)
  job.state = 0
  write_more(job)
  put_ready(job)
end

-- → dead, and its alert owed.
local function bury(job, reason, attempt)
  leave_place(job)
  job.state, job.dead_at, job.reason = 3, now, reason
  write_more(job)
  call('ZADD', P .. ':x', now, struct.pack('>I7', job.version) .. field_of(job.no, job.tid))
  call('ZADD', P .. ':x:' .. job.no, now, entry_of(job))
  call('ZADD', P .. ':y:' .. job.no, job.due, entry_of(job))
  owe_alert(job, attempt)
end

-- The same job under a new version, due then: a lease or a record of the old version decides nothing any more.
local function make_anew(job, due)
  leave_place(job)
  job.version, job.due = draw(), due
  write_record(job)
  wait_again(job)
end

-- dead → ready from the start again
local function revive(job)
  if job.failures > 0 then call('HDEL', P .. ':p', field_of(job.no, job.tid)) end
  leave_place(job)
  job.version, job.due, job.failures, job.strikes = draw(), now, 0, 0
  write_record(job)
  wait_again(job)
end
