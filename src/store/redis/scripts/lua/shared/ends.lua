-- ends: ends jobs. Removes record and body, and writes the history entry in the same step, unless the caller
-- keeps no history. Codes: 0 done, 1 cancelled, 2 purged, 3 expired.
-- A bucket with a note, or with an open move, keeps entries anyway: they are the tombstones of the put-back,
-- and of a late put of the move. So do jobs of schedules: a process that takes over an instant looks for its
-- job.
local keeps_all = switches:find('h', 1, true) ~= nil or note ~= nil or moving ~= nil

local function remove_rows(hash, fields)
  if fields[1] then call('HDEL', P .. hash, unpack(fields)) end
end

-- A cancel and a purge end the id, not only the version that they find: with a journal their number follows
-- the entry, so that a row of a lost version does not come back.
local function close_id(job)
  if writer or note then job.closes = draw() end
  return job.closes
end

-- attempts: per job the successful attempt, '' = none. A first attempt is stored in the history entry: a
-- field of its own in :p would take twice the memory.
local function end_jobs(jobs, how, attempts)
  local fields, mores, bodies, lists, rows, ends = {}, {}, {}, {}, {}, {}
  local leases = { [':l'] = {}, [':k'] = {} }
  local n, ended_at = 0, digits(now)
  for i, job in ipairs(jobs) do
    local f = field_of(job.no, job.tid)
    fields[i] = f
    if job.state == 2 then
      local held = leases[lease_set(job)]
      held[#held + 1] = lease_of(job)
    else
      leave_place(job)
    end
    if job.had_more then mores[#mores + 1] = f end
    if job.apart then bodies[#bodies + 1] = f end
    if keeps_all or is_tick(job.tid) then
      local only = ''
      if job.failures == 0 then only = attempts[i]
      elseif attempts[i] ~= '' then add_attempt(job, attempts[i]) end
      rows[n + 1] = f
      rows[n + 2] = struct.pack('>BI2I6I7I7I6I6c0', how, job.failures, job.due, job.version, webhook_origin(job), job.accepted,
        now, job.closes and closed_by(job.closes) or only)
      ends[n + 1], ends[n + 2] = ended_at, struct.pack('>I7c0', job.version, f)
      n = n + 2
    elseif may_have_attempts(job.failures, job.version, job.origin) then
      lists[#lists + 1] = f
    end
  end
  for set, held in pairs(leases) do
    if held[1] then call('ZREM', P .. set, unpack(held)) end
  end
  remove_rows(':j', fields)
  remove_rows(':m', mores)
  remove_rows(':b', bodies)
  remove_rows(':p', lists)
  if rows[1] then
    call('HSET', P .. ':h', unpack(rows))
    call('ZADD', P .. ':e', unpack(ends))
  end
end

local function end_job(job, how) end_jobs({ job }, how, { '' }) end
