#!lua
-- restore: compares rows of the journal with the jobs, and puts back what is lost. Also puts the
--   jobs of a jobs.db that a move brings (moving.lua), by the same rule: a live version and an end stay.
-- @keys P
-- @args id of the note that may be in force (0 = none); without one, the highest id that may have been
--   healed; one text with all rows; name of the move ('': they are the journal's); then each body that lies
--   apart, in their order. Per row: length (1) and
--   topic, length (2) and tag+id, state (0 waiting, 3 dead, 4 + code of the end), 1 = an open row only
--   replaces an older version, 2 = not that either, + 4 = the open row names another place than this one,
--   + 8 = and this one is not its home, version, origin (7 each), due (6), failures (2), acceptedAt (6),
--   deadAt (6), number of its last change (7), reason, 1 = its alert is settled, flags as in push, length
--   (2) and tail, length (4) and attempts
-- @returns one text, per row: kind (0 absent, and not put here, 1 put, 2 removed, 3 kept, 4 ended here,
--   5 not a note of the caller, 6 an older version is here, for a 2 in the row, 7 kept, and the row names
--   another place, 8 as 0, and an older version is removed, 9 as 3, and an entry is left); after a 1 or 7 its
--   change, after a 2, 8 or 9 its number (7), after a 4 code of the end, version (7), endedAt (6), after a 5
--   id of the last note (7)
-- @writes history entries; sets and records as push, retry and bury
-- @include list, clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, ends
-- Why: a full server rejects the whole script before its first write, and the caller sends it again. Each
--   write draws a number for the caller: it shows a server that goes back to a state with the same note.
if list < its_list then call('HSET', P .. ':n', 'list', ARGV[2]) end
-- Before the barrier of a newer note, the journal may have an older row of the job.
local is_allowed
if ARGV[7] ~= '' then
  is_allowed = not note and not went_back and moving and moving:find(' ' .. ARGV[7] .. ' ', 1, true)
elseif note then is_allowed = note.id == tonumber(ARGV[4]) else is_allowed = healed <= tonumber(ARGV[5]) end

-- A dead letter without an alert would never expire (dead-expire.lua). The journal has no more than that the
-- alert was settled, so `nobody` becomes sent.
local function put_settled_alert(job)
  write_alert({ version = job.version, state = 2, dead_at = job.dead_at, reason = job.reason, failures = job.failures,
    claimed_until = 0, no = job.no, tid = job.tid, attempt = '' })
  call('ZADD', P .. ':os', job.dead_at, version_key(job.version))
  call('ZADD', P .. ':oa', job.dead_at, version_key(job.version))
end

-- → waiting or dead, as the row says. The job is in no set.
local function place(job, row)
  job.state, job.strikes, job.failures, job.due = 0, 0, row.failures, row.due
  if row.state == 3 then
    rise_above(row.number)
    job.state, job.dead_at, job.reason, job.token = 3, row.dead_at, row.reason, row.number
  end
  write_record(job)
  write_more(job)
  if row.state ~= 3 then return put_waiting(job) end
  call('ZADD', P .. ':x', job.dead_at, struct.pack('>I7', job.version) .. field_of(job.no, job.tid))
  call('ZADD', P .. ':x:' .. job.no, job.dead_at, entry_of(job))
  call('ZADD', P .. ':y:' .. job.no, job.due, entry_of(job))
  if row.is_told then put_settled_alert(job) else owe_alert(job, '') end
end

local function put(row)
  rise_above(row.version)
  -- A change draws a number of its own; without one the counter has to be above the version all the same.
  if not writer then draw() end
  local job = { no = topic_number_made(row.topic), tid = row.tid, due = row.due, version = row.version,
    origin = row.origin, accepted = row.accepted, flags = row.flags, prio = row.flags % 4, tail = row.tail,
    had_more = false }
  local f = field_of(job.no, job.tid)
  forget(f)
  call('HDEL', P .. ':m', f)
  if row.body then call('HSET', P .. ':b', f, row.body) end
  if row.attempts ~= '' then call('HSET', P .. ':p', f, row.attempts) end
  place(job, row)
  return '\1' .. change_of(job)
end

local function remove(job, row)
  if row.version > job.version then job.closes = row.version end
  end_job(job, row.state - 4)
  return '\2' .. struct.pack('>I7', draw())
end

-- The job has the version of the row.
local function compare(job, row)
  if row.state > 3 then return remove(job, row) end
  if job.state == 2 or job.state == 3 or row.state ~= 3 and row.failures <= job.failures then
    -- It was put here, and the change did not get into the journal.
    if row.is_elsewhere and (job.state == 3) == (row.state == 3) then return '\7' .. change_of(job) end
    return '\3'
  end
  leave_place(job)
  place(job, row)
  return '\1' .. change_of(job)
end

local function restore(row)
  if not is_allowed then return '\5' .. struct.pack('>I7', note and note.id or healed) end
  local job = find(row.topic, row.tid)
  if job and job.version > row.version then return '\3' end
  if job and job.version == row.version then return compare(job, row) end
  if job then
    if row.state > 3 then return remove(job, row) end
    if row.is_asked and not row.is_onward then return '\6' end
    displace(job, field_of(job.no, job.tid))
    if not row.is_onward then return put(row) end
    -- The version of the row may be live in its own place: it must not be put here too.
    call('HDEL', P .. ':j', field_of(job.no, job.tid))
    return '\8' .. struct.pack('>I7', draw())
  end
  local f = field_of(topic_number_made(row.topic), row.tid)
  local ended = call('HGET', P .. ':h', f)
  if ended_version(f) >= row.version then
    return '\4' .. ended:sub(1, 1) .. struct.pack('>I7', ended_version(f)) .. ended:sub(30, 35)
  end
  if row.only then return '\0' end
  if row.state <= 3 then return put(row) end
  -- Another healer may hold an older row of it.
  leave_entry(topic_number_made(row.topic), row.tid, row.state - 4, row.version, 0)
  return '\9' .. struct.pack('>I7', draw())
end

local answers, at, apart = {}, 1, 7
while at <= #ARGV[6] do
  local row, only, told = {}, 0, 0
  row.topic, row.tid, row.state, only, row.version, row.origin, row.due, row.failures, row.accepted, row.dead_at,
    row.number, row.reason, told, row.flags, row.tail, row.attempts, at =
    struct.unpack('>Bc0 I2c0 BB I7I7 I6I2 I6I6 I7 BBB I2c0I4c0', ARGV[6], at)
  row.only, row.is_asked, row.is_told = only % 4 > 0, only % 4 == 2, told == 1
  row.is_elsewhere, row.is_onward = only % 8 >= 4, only >= 8
  if row.flags % 64 >= 32 then
    apart = apart + 1
    row.body = ARGV[apart]
  end
  answers[#answers + 1] = restore(row)
end
finish()
return table.concat(answers)
