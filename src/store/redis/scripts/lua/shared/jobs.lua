-- jobs: packs and unpacks the records of a job (layout.md). A job is a table: no, tid (tag and id), due,
-- version, origin, accepted, prio, flags, tail; state (0 delayed or ready, 2 reserved, 3 dead), failures,
-- strikes, token, instance, incarnation, dead_at, reason; had_more: whether the bucket holds a state record
-- of it. Reading scripts skip an unreadable record; writing ones quarantine it (quarantine.lua).
local function field_of(no, tid) return struct.pack('>I3', no) .. tid end

-- Whether record and state record are readable, here and by records.ts. Operators and disks damage records,
-- scripts never do: a damaged record must not affect another job.
local function is_whole(record, more)
  local length = #record
  -- A version has 53 bits.
  if length < 14 or record:byte(8) >= 32 then return false end
  local flags = record:byte(1)
  if flags % 4 == 3 then return false end
  local at = flags % 128 >= 64 and 28 or 15
  if length < at - 1 then return false end
  if flags >= 128 then
    if length <= at then return false end
    at = at + 2 + struct.unpack('>I2', record, at)
    if length < at - 1 then return false end
  end
  if flags % 32 >= 28 and (length <= at or length <= at + struct.unpack('>I2', record, at)) then return false end
  if not more then return true end
  local state = more:byte(1)
  return #more == 28 and (state == 0 or state == 2 or state == 3)
end

local function job_of(no, tid, record, more)
  local flags, due, version, at = struct.unpack('>BI6I7', record)
  local origin, accepted = version, math.floor(version / 1000)
  if flags % 128 >= 64 then
    origin, accepted, at = struct.unpack('>I7I6', record, at)
    flags = flags - 64
  end
  local job = {
    no = no, tid = tid, due = due, version = version, origin = origin, accepted = accepted,
    flags = flags, prio = flags % 4, apart = flags % 64 >= 32, tail = record:sub(at),
    state = 0, failures = 0, strikes = 0, had_more = false,
  }
  if more then
    job.had_more = true
    job.state, job.failures, job.strikes, job.token, job.instance, job.incarnation, job.dead_at, job.reason =
      struct.unpack('>BI2BI7I4I6I6B', more)
  end
  return job
end

-- nil: none, or unreadable; the second result is then whether it is unreadable.
local function find_in(no, tid)
  local f = field_of(no, tid)
  local record = call('HGET', P .. ':j', f)
  if not record then return nil, false end
  local more = call('HGET', P .. ':m', f)
  if not is_whole(record, more) then return nil, true end
  return job_of(no, tid, record, more)
end

-- Topic, and tag and id, of a quarantined record.
local function read_quarantined(record)
  local at, of = 1, {}
  for i = 1, 2 do
    local length = struct.unpack('>I4', record, at + 1)
    of[i] = record:sub(at + 5, at + 4 + length)
    at = at + 5 + length
  end
  return of[1], of[2]
end

-- defined by quarantine.lua, in scripts that write
local quarantine_job

-- A job, live or dead; nil = none.
local function find(topic, tid)
  local no = topic_number(topic)
  if not no then return nil end
  local job, is_torn = find_in(no, tid)
  if is_torn and quarantine_job then quarantine_job(no, tid) end
  return job
end

-- origin and accepted take 13 bytes, and are stored only if they do not follow from the version.
local function record_of(job)
  local plain = job.origin == job.version and job.accepted == math.floor(job.version / 1000)
  local fixed = struct.pack('>BI6I7', plain and job.flags or job.flags + 64, job.due, job.version)
  if plain then return fixed .. job.tail end
  return fixed .. struct.pack('>I7I6', job.origin, job.accepted) .. job.tail
end

local function more_of(job)
  return struct.pack('>BI2BI7I4I6I6B', job.state, job.failures, job.strikes, job.token or 0, job.instance or 0,
    job.incarnation or 0, job.dead_at or 0, job.reason or 0)
end

local function write_record(job) call('HSET', P .. ':j', field_of(job.no, job.tid), record_of(job)) end

-- Writes the state record, or removes it: most jobs never need one.
local function write_more(job)
  if job.state ~= 0 or job.failures > 0 or job.strikes > 0 then
    call('HSET', P .. ':m', field_of(job.no, job.tid), more_of(job))
    job.had_more = true
  elseif job.had_more then
    call('HDEL', P .. ':m', field_of(job.no, job.tid))
    job.had_more = false
  end
end

-- The member of a job in the sorted sets of its topic: they order equal scores by bytes, so by version.
local function entry_of(job)
  return struct.pack('>I7', job.version) .. string.char(job.prio * 2 + job.tid:byte(1)) .. job.tid:sub(2)
end

-- Whether a member of such a set is valid: complete, with a known priority.
local function is_entry(entry) return #entry >= 9 and entry:byte(8) < 6 end

-- tag and id, and the priority, of a valid member
local function tid_of(entry)
  local both = entry:byte(8)
  return string.char(both % 2) .. entry:sub(9), math.floor(both / 2)
end

-- The tail of a record begins with the extension block, if the job has options (flag 128).
local function content_at(job) return job.flags >= 128 and 3 + struct.unpack('>I2', job.tail) or 1 end

-- The extension block; '' = none.
local function extension_of(job) return job.tail:sub(3, content_at(job) - 1) end

-- The job's own lease (ms; extension.ts); nil = none.
local function own_lease(job)
  local at, content = 3, content_at(job)
  while at + 1 < content do
    local kind, length = job.tail:byte(at, at + 1)
    if kind == 1 and length == 4 and at + 5 < content then return (struct.unpack('>I4', job.tail, at + 2)) end
    at = at + 2 + length
  end
end

-- Leases of processes are in :l, those of pulled jobs (instance 0) in :k: a search for the leases of a
-- process reads no pulled ones.
local function lease_set(job) return job.instance == 0 and ':k' or ':l' end

-- The member of a reserved job in such a set: sorts by token, and holds all that a lease needs without the
-- record.
local function lease_of(job)
  return struct.pack('>I7I4I6I6I7I3', job.token, job.instance, job.incarnation, job.due, job.version, job.no)
    .. string.char(job.prio * 2 + job.tid:byte(1)) .. job.tid:sub(2)
end

local function is_lease(member) return #member >= 35 and member:byte(34) < 6 end

local function read_lease(member)
  local token, instance, incarnation, due, version, no = struct.unpack('>I7I4I6I6I7I3', member)
  local both = member:byte(34)
  return { token = token, instance = instance, incarnation = incarnation, due = due, version = version, no = no,
    prio = math.floor(both / 2), tid = string.char(both % 2) .. member:sub(35) }
end
