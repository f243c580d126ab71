#!lua flags=allow-oom
-- relink: puts jobs and topic numbers of one piece of the bucket back into sets and hashes that lost them.
-- @keys P
-- @args step (t, T, j, d, topics), cursor ('0' = from the start), end of a lease that lost its own (ms)
-- @returns next cursor ('0' = end of the step), how many entries were put back or removed
-- @writes per entry: the set or hash that lacks it
-- @include clock, numbers, topics, jobs, queues
-- Why: a record says where its job belongs. Operators and damaged dumps lose single keys. A job that is in
--   any set stays there, so the script cannot move one; what it finds contradictory, fsck names.
local step, cursor, lease_ms = ARGV[4], ARGV[5], tonumber(ARGV[6])
local count = 0
-- Counts an entry if the command has added or removed one.
local function did(number) count = count + (number > 0 and 1 or 0) end

local function is_in_any_set(job)
  local entry = entry_of(job)
  if call('ZSCORE', P .. ':d:' .. job.no, entry) or call('ZSCORE', P .. ':x:' .. job.no, entry) then return true end
  for prio = 0, 2 do
    if call('ZSCORE', P .. ':r:' .. prio .. ':' .. job.no, entry) then return true end
  end
  return job.token ~= nil and (call('ZSCORE', P .. ':l', lease_of(job)) or call('ZSCORE', P .. ':k', lease_of(job))) and true or false
end

local function relink_job(f, record)
  local no, tid = struct.unpack('>I3', f), f:sub(4)
  local more = call('HGET', P .. ':m', f)
  if not is_whole(record, more) then return end
  local job = job_of(no, tid, record, more)
  if job.state == 3 then
    -- A dead letter is in three sets; each may be lost alone.
    did(call('ZADD', P .. ':x', 'NX', job.dead_at, struct.pack('>I7', job.version) .. f))
    did(call('ZADD', P .. ':x:' .. no, 'NX', job.dead_at, entry_of(job)))
    did(call('ZADD', P .. ':y:' .. no, 'NX', job.due, entry_of(job)))
  elseif not is_in_any_set(job) then
    if job.state == 2 then call('ZADD', P .. lease_set(job), digits(now + lease_ms), lease_of(job))
    else put_waiting(job) end
    count = count + 1
  end
end

local function put_head(no)
  local first = call('ZRANGE', P .. ':d:' .. no, 0, 0, 'WITHSCORES')
  if first[1] then did(call('ZADD', P .. ':d', 'NX', first[2], struct.pack('>I7I3', version_of(first[1]), no))) end
end

local function relink_topic(no)
  put_head(no)
  for prio = 0, 2 do
    local is_rung, has_ready = call('ZSCORE', P .. ':a:' .. prio, no), call('EXISTS', P .. ':r:' .. prio .. ':' .. no) == 1
    if has_ready and not is_rung then
      join_ring(prio, no)
      count = count + 1
    elseif is_rung and not has_ready then
      did(call('ZREM', P .. ':a:' .. prio, no))
    end
  end
end

local next_cursor = '0'
look_at_head()
if step == 'topics' then
  local at, known = tonumber(cursor), numbers_in_use('+inf')
  for i = at + 1, math.min(at + 200, #known) do relink_topic(known[i]) end
  if at + 200 < #known then next_cursor = digits(at + 200) end
elseif step == 'd' then
  -- Heads of topics that have another first job, or none.
  local found = call('ZSCAN', P .. ':d', cursor, 'COUNT', 200)
  next_cursor = found[1]
  for i = 1, #found[2], 2 do
    local head = found[2][i]
    local no = #head == 10 and struct.unpack('>I3', head, 8)
    local first = no and call('ZRANGE', P .. ':d:' .. no, 0, 0)[1]
    if not first or version_of(first) ~= version_of(head) then
      did(call('ZREM', P .. ':d', head))
      if no then put_head(no) end
    end
  end
else
  local found = call('HSCAN', P .. ':' .. step, cursor, 'COUNT', 200)
  next_cursor = found[1]
  for i = 1, #found[2], 2 do
    local field, value = found[2][i], found[2][i + 1]
    if step == 'j' then
      relink_job(field, value)
    elseif step == 't' then
      local no = value:match('^%d+')
      if call('HEXISTS', P .. ':T', no) == 0 then did(call('HSET', P .. ':T', no, field)) end
      did(call('ZADD', P .. ':u', 'NX', 0, no))
      if tonumber(no) > topics then
        topics = tonumber(no)
        call('HSET', P .. ':n', 'topics', no)
      end
    elseif call('HEXISTS', P .. ':t', value) == 0 then
      -- In use: whether it was at rest is lost, and rest-topics.lua finds it out again.
      call('HSET', P .. ':t', value, field)
      call('ZADD', P .. ':u', 0, field)
      count = count + 1
    end
  end
end
finish()
return { next_cursor, count }
