-- leases: the fence. A finishing write sends version and token; if either differs from the job's, or the same
-- call finished the lease before, it changes nothing. The clock does not decide: an expired lease finishes
-- its job until it is recovered. Only the end of an expired lease (if_expired) compares the clock too: the
-- lease may have been extended after recover listed it. A lease that a pull client shows must be one of
-- pullOwner. Exception: in a bucket with a note the ack of an absent job leaves its end without comparing
-- tokens (finish_leases), because its lease may be lost with the job. All leases of a call are one text. Per
-- lease: length (1) and topic, length (2) and tag+id, version (7), token (7), flags (1; 1 = if_expired,
-- 2 = pulled), a number of the verb (6), length (4) and attempt.
-- Why: two commands read the records of all of them, whatever their number. A first pass over the text finds
-- the fields, a second one takes each lease: no table per lease.

-- by field: a lease of this call was finished, or its record quarantined
local is_over = {}

-- The job that a shown lease may finish; nil = the lease is lost.
local function leased(no, tid, f, record, more, version, token, flags)
  if not record or is_over[f] then return nil end
  if not is_whole(record, more) then
    quarantine_job(no, tid)
    is_over[f] = true
    return nil
  end
  local job = job_of(no, tid, record, more)
  if job.state ~= 2 or job.version ~= version or job.token ~= token then return nil end
  if flags >= 2 and job.instance ~= 0 then return nil end
  if flags % 2 == 1 and tonumber(call('ZSCORE', P .. lease_set(job), lease_of(job)) or '0') > now then return nil end
  return job
end

-- Calls answer_of(job, number, attempt, field, topic, tag+id, version, record, i) for each shown lease i, in
-- order. job: nil = the lease is lost. Returns the answers as one text.
local function each_lease(answer_of)
  local text = ARGV[4]
  local fields, starts, count, at = {}, {}, 0, 1
  while at <= #text do
    local topic, tid, next_at = struct.unpack('>Bc0 I2c0', text, at)
    count = count + 1
    -- Topic number 0 does not exist: the field of an unknown topic finds nothing.
    fields[count], starts[count] = field_of(topic_number(topic) or 0, tid), at
    at = next_at + 25 + struct.unpack('>I4', text, next_at + 21)
  end
  local records, mores, answers = call('HMGET', P .. ':j', unpack(fields)), call('HMGET', P .. ':m', unpack(fields)), {}
  for i = 1, count do
    local topic, tid, version, token, flags, number, attempt =
      struct.unpack('>Bc0 I2c0 I7I7B I6 I4c0', text, starts[i])
    local f, record = fields[i], records[i]
    local job = leased(topic_number(topic), tid, f, record, mores[i], version, token, flags)
    answers[i] = answer_of(job, number, attempt, f, topic, tid, version, record, i)
  end
  return table.concat(answers)
end

-- Calls finish_one(job, number, attempt) for each valid lease. Returns per lease a byte: 1 finished, 2
-- finished and its outcome job pushed, 0 lost. The change of a finished one follows, unless is_same: the job
-- only moves back; then that of the outcome job. leaves_entry: in a bucket that has lost changes the end of
-- an absent job is recorded, and counts as finished. push: pushes the outcome job of a lease (outcomes.lua);
-- nil: none has any.
local function finish_leases(finish_one, is_same, leaves_entry, push)
  local function with_outcome(i, change)
    local outcome = push and push(i)
    return outcome and '\2' .. change .. change_of(outcome, outcome.version) or '\1' .. change
  end
  return each_lease(function(job, number, attempt, f, topic, tid, version, record, i)
    if job then
      is_over[f] = true
      finish_one(job, number, attempt)
      return with_outcome(i, is_same and '' or change_of(job))
    end
    if leaves_entry and note and not record and not is_over[f] then
      local no = topic_number_made(topic)
      if ended_version(field_of(no, tid)) < version then return with_outcome(i, leave_entry(no, tid, 0, version)) end
    end
    return '\0'
  end)
end
