-- ends: how a job goes. The body goes with it, and what is kept of it is written in the same step, unless the caller keeps no
-- history. Ends: 0 done, 1 cancelled, 2 purged, 3 expired.
local keeps_history = switches:find('h', 1, true) ~= nil

-- attempt: the record of the successful one, '' for none. The only one of a job lies in its entry: in :p, with a field of its
-- own, it would take twice the memory.
local function end_job(job, how, attempt)
  local f = field_of(job.no, job.tid)
  leave_place(job)
  call('HDEL', P .. ':j', f)
  if job.had_more then call('HDEL', P .. ':m', f) end
  if job.apart then call('HDEL', P .. ':b', f) end
  if keeps_history then
    local only = ''
    if job.failures == 0 then only = attempt
    elseif attempt ~= '' then add_attempt(job, attempt) end
    call('HSET', P .. ':h', f, struct.pack('>BI2I6I7I7I6I6', how, job.failures, job.due, job.version, job.origin,
      job.accepted, now) .. only)
    call('ZADD', P .. ':e', now, struct.pack('>I7', job.version) .. f)
  elseif job.failures > 0 then
    call('HDEL', P .. ':p', f)
  end
end
