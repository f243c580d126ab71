#!lua
-- push: stores jobs, in order, each checked and written by itself.
-- @keys P
-- @args per job: topic, tag+id, mode (r replace, k keep, j reject; then i: only where the id lives, or the number that its version has to be above), flags (priority + 4 × content
--   type + 32 with a body apart), due (d<ms from now> or a<epoch ms>), tail of the record, body apart ('' = none)
-- @returns per job: kind (1 stored, 2 a live job stays as it was, 3 absent), version (absent: a number above all that were given here), due, state, 1 a live job was replaced
--   + 2 it was reserved
-- @writes the number of the list, where it was lower; the old job leaves its place, then record, body, place; numbers last
-- @include list, clock, numbers, topics, jobs, queues, alerts, moves, aside
-- Why: the flags of line 1 let a server over its maxmemory refuse all of it before it begins.
if list < its_list then call('HSET', P .. ':n', 'list', ARGV[2]) end

local function due_when(when)
  local ms = tonumber(when:sub(2))
  -- The clock has dropped the part of a millisecond: without one more it would be early by that part.
  if when:byte(1) == 100 then return ms == 0 and now or now + ms + 1 end
  return math.max(ms, now)
end

local answers = {}
local function answer(kind, job, state, bits)
  local n = #answers
  answers[n + 1], answers[n + 2], answers[n + 3], answers[n + 4], answers[n + 5] = kind, job.version, job.due, state, bits
end

-- An id has either a job or an entry of the history: what has ended gives way to the new version.
local function forget(f)
  local ended = call('HGET', P .. ':h', f)
  if not ended then return end
  call('HDEL', P .. ':h', f)
  if #ended < 35 then
    keep_aside(topic_name((struct.unpack('>I3', f))), f:sub(4), part('h', ended))
    return
  end
  local _, failures, _, version = struct.unpack('>BI2I6I7', ended)
  call('ZREM', P .. ':e', struct.pack('>I7', version) .. f)
  if failures > 0 then call('HDEL', P .. ':p', f) end
end

local function displace(old, f)
  leave_place(old)
  if old.had_more then call('HDEL', P .. ':m', f) end
  if old.failures > 0 then call('HDEL', P .. ':p', f) end
  if old.apart then call('HDEL', P .. ':b', f) end
end

for i = 4, #ARGV, 7 do
  local topic, tid, mode, flags, when, tail, body = unpack(ARGV, i, i + 6)
  local old = find(topic, tid)
  local live = old and old.state ~= 3
  local sort, more = mode:sub(1, 1), mode:sub(2)
  if more == 'i' and not old then
    answer(3, { version = math.max(seq, us), due = 0 }, 0, 0)
  elseif live and sort ~= 'r' then
    answer(2, old, state_of(old), 0)
  else
    local no = topic_number_made(topic)
    local f = field_of(no, tid)
    if old then displace(old, f) else forget(f) end
    flags = tonumber(flags)
    rise_above(tonumber(more) or 0)
    local version = draw()
    local job = { no = no, tid = tid, due = due_when(when), version = version, origin = version, accepted = now,
      flags = flags, prio = flags % 4, tail = tail, state = 0 }
    write_record(job)
    if flags >= 32 then call('HSET', P .. ':b', f, body) end
    put_waiting(job)
    answer(1, job, job.due > now and 0 or 1, (live and 1 or 0) + (live and old.state == 2 and 2 or 0))
  end
end
finish()
return answers
