-- leases: the fence. A finishing write sends version and token; if either differs from the job's, or the same
-- call finished the lease before, it changes nothing. The clock does not decide: an expired lease finishes
-- its job until it is recovered. Only the end of an expired lease (if_expired) compares the clock too: the
-- lease may have been extended after recover listed it. All leases of a call are one text. Per lease: length
-- (1) and topic, length (2) and tag+id, version (7), token (7), if_expired (1), a number of the verb (6),
-- length (4) and attempt.
-- Why: two commands read the records of all of them, whatever their number.
local function leases_shown()
  local leases, fields, at = {}, {}, 1
  while at <= #ARGV[4] do
    local topic, tid, version, token, if_expired, number, attempt
    topic, tid, version, token, if_expired, number, attempt, at = struct.unpack('>Bc0 I2c0 I7I7B I6 I4c0', ARGV[4], at)
    local no = topic_number(topic)
    -- Topic number 0 does not exist: the field of an unknown topic finds nothing.
    local f = field_of(no or 0, tid)
    fields[#fields + 1] = f
    leases[#leases + 1] = { topic = topic, no = no, tid = tid, f = f, version = version, token = token, if_expired = if_expired == 1,
      number = number, attempt = attempt }
  end
  local records, mores = call('HMGET', P .. ':j', unpack(fields)), call('HMGET', P .. ':m', unpack(fields))
  for i, lease in ipairs(leases) do lease.record, lease.more = records[i], mores[i] end
  return leases
end

-- by field: a lease of this call was finished, or its record quarantined
local is_over = {}

-- The job that a shown lease may finish; nil = the lease is lost.
local function leased(lease)
  if not lease.record or is_over[lease.f] then return nil end
  if not is_whole(lease.record, lease.more) then
    quarantine_job(lease.no, lease.tid)
    is_over[lease.f] = true
    return nil
  end
  local job = job_of(lease.no, lease.tid, lease.record, lease.more)
  if job.state ~= 2 or job.version ~= lease.version or job.token ~= lease.token then return nil end
  if lease.if_expired and tonumber(call('ZSCORE', P .. lease_set(job), lease_of(job)) or '0') > now then return nil end
  return job
end

-- Calls finish_one(job, number, attempt) for each valid lease. Returns per lease a byte: 1 finished, 0 lost.
-- The change of a finished one follows, unless is_same: the job only moves back. leaves_entry: in a bucket
-- that has lost changes the end of an absent job is recorded, and counts as finished.
local function finish_leases(finish_one, is_same, leaves_entry)
  local answers = {}
  for i, lease in ipairs(leases_shown()) do
    local job = leased(lease)
    if job then
      is_over[lease.f] = true
      finish_one(job, lease.number, lease.attempt)
    end
    answers[i] = job and '\1' .. (is_same and '' or change_of(job)) or '\0'
    if leaves_entry and note and not lease.record and not is_over[lease.f] then
      local no = topic_number_made(lease.topic)
      if ended_version(field_of(no, lease.tid)) < lease.version then
        answers[i] = '\1' .. leave_entry(no, lease.tid, 0, lease.version)
      end
    end
  end
  return table.concat(answers)
end
