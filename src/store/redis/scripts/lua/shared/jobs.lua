-- jobs: packs and unpacks the records of a job (layout.md). A job is a table: no, tid (tag and id), due,
-- version, origin, accepted, prio, flags, tail (of a stored job: tail_of); state (0 delayed or ready, 2
-- reserved, 3 dead), failures, strikes, token, instance, incarnation, dead_at, reason; had_more: whether the
-- bucket holds a state record of it. Reading scripts skip an unreadable record; writing ones quarantine it
-- (quarantine.lua).
-- Why: redis-server spends four fifths of a script in the interpreter. So a table gets all its fields at
-- once (a later one makes Lua move it), and one struct.pack makes each record and member.
local prefixes = {}
local function field_of(no, tid)
  local prefix = prefixes[no]
  if not prefix then
    prefix = struct.pack('>I3', no)
    prefixes[no] = prefix
  end
  return prefix .. tid
end

-- Whether record and state record are readable, here and by records.ts. Operators and disks damage records,
-- scripts never do: a damaged record must not affect another job.
local function is_whole(record, more)
  local length = #record
  if length < 14 then return false end
  local flags, _, _, _, _, _, _, high = record:byte(1, 8)
  -- A version has at most 53 bits.
  if high >= 32 or flags % 4 == 3 then return false end
  if flags >= 64 or flags % 32 >= 28 then
    local at = flags % 128 >= 64 and 28 or 15
    if length < at - 1 then return false end
    if flags >= 128 then
      if length <= at then return false end
      at = at + 2 + struct.unpack('>I2', record, at)
      if length < at - 1 then return false end
    end
    if flags % 32 >= 28 and (length <= at or length <= at + struct.unpack('>I2', record, at)) then return false end
  end
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
  if not more then
    return { no = no, tid = tid, due = due, version = version, origin = origin, accepted = accepted,
      flags = flags, prio = flags % 4, apart = flags % 64 >= 32, record = record, tail_at = at,
      state = 0, failures = 0, strikes = 0, had_more = false }
  end
  local state, failures, strikes, token, instance, incarnation, dead_at, reason = struct.unpack('>BI2BI7I4I6I6B', more)
  return { no = no, tid = tid, due = due, version = version, origin = origin, accepted = accepted,
    flags = flags, prio = flags % 4, apart = flags % 64 >= 32, record = record, tail_at = at,
    state = state, failures = failures, strikes = strikes, had_more = true,
    token = token, instance = instance, incarnation = incarnation, dead_at = dead_at, reason = reason }
end

-- The part of a record after the numbers. Cut only when a script needs it: most do not.
local function tail_of(job) return job.tail or job.record:sub(job.tail_at) end

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

-- Whether attempts of it may be stored: also of a requeued one, whose failures count from 0, and whose
-- version is not its origin. Asking the hash would cost each end of a job a command.
local function may_have_attempts(failures, version, origin) return failures > 0 or version ~= origin end

-- Whether a caller that read this version (digits; '' = any) read another one than the job has: then nothing
-- may change.
local function names_other(version, job) return version ~= '' and tonumber(version) ~= job.version end

-- origin and accepted take 13 bytes, and are stored only if they do not follow from the version.
local function record_text(flags, due, version, origin, accepted, tail)
  if origin == version and accepted == math.floor(version / 1000) then
    return struct.pack('>BI6I7c0', flags, due, version, tail)
  end
  return struct.pack('>BI6I7I7I6c0', flags + 64, due, version, origin, accepted, tail)
end

local function more_text(state, failures, strikes, token, instance, incarnation, dead_at, reason)
  return struct.pack('>BI2BI7I4I6I6B', state, failures, strikes, token, instance, incarnation, dead_at, reason)
end

local function write_record(job)
  call('HSET', P .. ':j', field_of(job.no, job.tid),
    record_text(job.flags, job.due, job.version, job.origin, job.accepted, tail_of(job)))
end

-- Writes the state record, or removes it: most jobs never need one.
local function write_more(job)
  if job.state ~= 0 or job.failures > 0 or job.strikes > 0 then
    call('HSET', P .. ':m', field_of(job.no, job.tid), more_text(job.state, job.failures, job.strikes, job.token or 0,
      job.instance or 0, job.incarnation or 0, job.dead_at or 0, job.reason or 0))
    job.had_more = true
  elseif job.had_more then
    call('HDEL', P .. ':m', field_of(job.no, job.tid))
    job.had_more = false
  end
end

-- The member of a job in the sorted sets of its topic: they order equal scores by bytes, so by version.
local function entry_text(version, prio, tid) return struct.pack('>I7Bc0', version, prio * 2 + tid:byte(1), tid:sub(2)) end
local function entry_of(job) return entry_text(job.version, job.prio, job.tid) end

-- Whether a member of such a set is valid: complete, with a known priority.
local function is_entry(entry) return #entry >= 9 and entry:byte(8) < 6 end

-- tag and id, and the priority, of a valid member
local function tid_of(entry)
  local both = entry:byte(8)
  local tag = both % 2
  return (tag == 0 and '\0' or '\1') .. entry:sub(9), (both - tag) / 2
end

-- The tail of a record begins with the extension block, if the job has options (flag 128).
local function content_at(job) return job.flags >= 128 and 3 + struct.unpack('>I2', tail_of(job)) or 1 end

-- The extension block; '' = none.
local function extension_of(job) return tail_of(job):sub(3, content_at(job) - 1) end

-- Replaces the extension block; '' = none.
local function set_extension(job, block)
  local content = tail_of(job):sub(content_at(job))
  job.tail = block == '' and content or struct.pack('>I2c0', #block, block) .. content
  job.flags = job.flags % 128 + (block == '' and 0 or 128)
end

-- The value of an option in the extension block (extension.ts), if it has so many bytes; nil = none.
local function option_of(job, wanted, bytes)
  local tail, at, content = tail_of(job), 3, content_at(job)
  while at + 1 < content do
    local kind, length = tail:byte(at, at + 1)
    if kind == wanted and length == bytes and at + 1 + bytes < content then return tail:sub(at + 2, at + 1 + bytes) end
    at = at + 2 + length
  end
end

-- Replaces the number of snoozes in the extension block (option 7, 4 bytes); nil = none.
local function set_again(job, again)
  local block, kept, at = extension_of(job), {}, 1
  while at < #block do
    local kind, length = block:byte(at, at + 1)
    local next_at = at + 2 + length
    if next_at > #block + 1 then break end
    if kind ~= 7 then kept[#kept + 1] = block:sub(at, next_at - 1) end
    at = next_at
  end
  if again then kept[#kept + 1] = '\7\4' .. again end
  set_extension(job, table.concat(kept))
end

-- The job's own lease (ms); nil = none.
local function own_lease(job)
  local lease = option_of(job, 1, 4)
  return lease and (struct.unpack('>I4', lease))
end

-- The origin from which webhook-id derives: an edit keeps it for its new origin.
local function webhook_origin(job)
  local kept = job.version ~= job.origin and option_of(job, 8, 7)
  return kept and (struct.unpack('>I7', kept)) or job.origin
end

-- Leases of processes are in :l, those of pulled jobs (instance 0) in :k: a search for the leases of a
-- process reads no pulled ones.
local function lease_set(job) return job.instance == 0 and ':k' or ':l' end

-- The member of a reserved job in such a set: sorts by token, and holds all that a lease needs without the
-- record.
local function lease_text(token, instance, incarnation, due, version, no, prio, tid)
  return struct.pack('>I7I4I6I6I7I3Bc0', token, instance, incarnation, due, version, no, prio * 2 + tid:byte(1),
    tid:sub(2))
end

local function lease_of(job)
  return lease_text(job.token, job.instance, job.incarnation, job.due, job.version, job.no, job.prio, job.tid)
end

local function is_lease(member) return #member >= 35 and member:byte(34) < 6 end

local function read_lease(member)
  local token, instance, incarnation, due, version, no = struct.unpack('>I7I4I6I6I7I3', member)
  local both = member:byte(34)
  return { token = token, instance = instance, incarnation = incarnation, due = due, version = version, no = no,
    prio = math.floor(both / 2), tid = string.char(both % 2) .. member:sub(35) }
end
