-- alerts: one alert per burial, by version. Owed ones are sorted per topic, claimed ones by the end of their
-- claim, settled ones by deadAt, and all of them by deadAt in :oa. States: 0 owed, 1 claimed, 2 sent, 3
-- `nobody`.
-- Invariant: an owed or claimed alert is never removed; a settled one goes with its dead letter.
local function version_key(version) return struct.pack('>I7', version) end

local function alert_record(alert)
  return struct.pack('>BI6BI2I6I3I2', alert.state, alert.dead_at, alert.reason, alert.failures, alert.claimed_until,
    alert.no, #alert.tid) .. alert.tid .. alert.attempt
end

local function read_alert(version, record)
  local state, dead_at, reason, failures, claimed_until, no, length, at = struct.unpack('>BI6BI2I6I3I2', record)
  return { version = version, state = state, dead_at = dead_at, reason = reason, failures = failures,
    claimed_until = claimed_until, no = no, tid = record:sub(at, at + length - 1), attempt = record:sub(at + length) }
end

local function is_whole_alert(record)
  return #record >= 21 and record:byte(1) <= 3 and #record >= 21 + struct.unpack('>I2', record, 20)
end

-- nil: none, or unreadable
local function find_alert(version)
  local record = call('HGET', P .. ':o', version_key(version))
  return record and is_whole_alert(record) and read_alert(version, record) or nil
end

local function write_alert(alert) call('HSET', P .. ':o', version_key(alert.version), alert_record(alert)) end

local function claim_of(alert) return struct.pack('>I7I3', alert.version, alert.no) end

-- Removes it from the set of its state.
local function leave_state(alert)
  if alert.state == 0 then call('ZREM', P .. ':ow:' .. alert.no, version_key(alert.version))
  elseif alert.state == 1 then call('ZREM', P .. ':oc', claim_of(alert))
  else call('ZREM', P .. ':os', version_key(alert.version)) end
end

local function make_owed(alert)
  alert.state, alert.claimed_until = 0, 0
  write_alert(alert)
  call('ZADD', P .. ':ow:' .. alert.no, alert.dead_at, version_key(alert.version))
end

local function remove_alert(alert)
  leave_state(alert)
  call('HDEL', P .. ':o', version_key(alert.version))
  call('ZREM', P .. ':oa', version_key(alert.version))
end

-- attempt: record of the last attempt, '' = none
local function owe_alert(job, attempt)
  make_owed({ version = job.version, dead_at = job.dead_at, reason = job.reason, failures = job.failures, no = job.no,
    tid = job.tid, attempt = attempt })
  call('ZADD', P .. ':oa', job.dead_at, version_key(job.version))
end

-- Called when its dead letter goes.
local function end_alert(version)
  local alert = find_alert(version)
  if alert and alert.state >= 2 then remove_alert(alert) end
end
