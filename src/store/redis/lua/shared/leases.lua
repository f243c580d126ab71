-- leases: the fence. A finishing write shows version and token; when either differs from what the job has, it changes nothing.
-- The clock does not decide: a lease that ran out finishes its job while nobody has taken it back.
local function leased(topic, tid, version, token)
  local job = find(topic, tid)
  if job and job.state == 2 and job.version == tonumber(version) and job.token == tonumber(token) then return job end
  return nil
end
