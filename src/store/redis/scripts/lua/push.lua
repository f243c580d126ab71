#!lua
-- push: stores jobs in order, each checked by itself.
-- @keys P
-- @args one text with all jobs, then each body that lies apart, in their order. Per job: length (1) and
--   topic, length (2) and tag+id, mode (r replace, k keep, j reject), 1 = only if the id lives here, number
--   that the version must exceed (7), flags (priority + 4 × content type + 32 with a body apart + 64 with a
--   past + 128 if the tail begins with an extension block), d = delay or a = epoch (ms, 6), length (2) and
--   tail; the past of an imported job: acceptedAt (ms, 6), failures (2)
-- @returns one text, per job: kind (1 stored, 2 a live job is unchanged, 3 absent, 4 unknown whether a live
--   job exists: it may be lost), state, 1 replaced + 2 was reserved, version (7; absent: a number no lower
--   than any given here), due (6)
-- @writes the list number, if it was lower; the replaced job's set, then record, body, set; new jobs in one
--   piece; numbers
-- @include list, clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing
-- Why: without allow-oom a server over its maxmemory rejects the whole script before its first write. Most
--   ids are new: looked up and written together, a hundred per call take 6 µs each; with commands of their
--   own they took 10.
if list < its_list then call('HSET', P .. ':n', 'list', ARGV[2]) end

local pushes, fields = {}, {}
local at, apart = 1, 4
while at <= #ARGV[4] do
  local topic, tid, mode, only, above, flags, from, ms, tail
  topic, tid, mode, only, above, flags, from, ms, tail, at =
    struct.unpack('>Bc0 I2c0 c1 B I7 B c1I6 I2c0', ARGV[4], at)
  local no = topic_number(topic)
  local f = no and field_of(no, tid)
  local is_apart, accepted, failures = flags % 64 >= 32, now, 0
  if is_apart then apart = apart + 1 end
  if flags % 128 >= 64 then
    accepted, failures, at = struct.unpack('>I6I2', ARGV[4], at)
    flags = flags - 64
  end
  pushes[#pushes + 1] = { topic = topic, tid = tid, f = f, mode = mode, only = only == 1, above = above, flags = flags,
    from = from, ms = ms, tail = tail, body = is_apart and ARGV[apart],
    accepted = math.min(accepted, now), failures = failures }
  if f then fields[#fields + 1] = f end
end

-- Ids with neither a job nor a history entry; of an id that comes twice, only the first.
local is_new = {}
if fields[1] then
  local records, ended = call('HMGET', P .. ':j', unpack(fields)), call('HMGET', P .. ':h', unpack(fields))
  for i, f in ipairs(fields) do
    if is_new[f] == nil then is_new[f] = not records[i] and not ended[i] end
  end
end

-- now has lost its fraction of a millisecond: without one more the job would be early by it.
local function due_of(push)
  if push.from == 'a' then return math.max(push.ms, now) end
  return push.ms == 0 and now or now + push.ms + 1
end

local function made(push)
  rise_above(push.above)
  local version = draw()
  return { no = topic_number_made(push.topic), tid = push.tid, due = due_of(push), version = version, origin = version,
    accepted = push.accepted, flags = push.flags, prio = push.flags % 4, tail = push.tail, state = 0,
    failures = push.failures, strikes = 0 }
end

local answers = {}
local function answer(kind, job, state, bits)
  answers[#answers + 1] = struct.pack('>BBBI7I6', kind, state, bits, job.version, job.due)
end

-- New jobs, gathered and written in one piece; queues in the order of their first jobs, which is the order of
-- turns.
local records, bodies, places, place_of = {}, {}, {}, {}
local function gather(f, job, body)
  local n = #records
  records[n + 1], records[n + 2] = f, record_of(job)
  if body then bodies[#bodies + 1], bodies[#bodies + 2] = f, body end
  local prio = job.due <= now and job.prio or 3
  local place = place_of[job.no * 4 + prio]
  if not place then
    place = { no = job.no, prio = prio, members = {} }
    place_of[job.no * 4 + prio], places[#places + 1] = place, place
  end
  n = #place.members
  place.members[n + 1], place.members[n + 2] = job.due, entry_of(job)
end

local function write_gathered()
  if not records[1] then return end
  call('HSET', P .. ':j', unpack(records))
  -- A lost record may have left a state record, which must not apply to the new job.
  local fields_of_new = {}
  for i = 1, #records, 2 do fields_of_new[#fields_of_new + 1] = records[i] end
  call('HDEL', P .. ':m', unpack(fields_of_new))
  if bodies[1] then call('HSET', P .. ':b', unpack(bodies)) end
  for _, place in ipairs(places) do
    if place.prio == 3 then put_all_delayed(place.no, place.members)
    else put_all_ready(place.prio, place.no, place.members) end
  end
  records, bodies, places, place_of = {}, {}, {}, {}
end

local function push_known(push)
  write_gathered()
  local old = find(push.topic, push.tid)
  local live = old and old.state ~= 3
  -- The live job that it should keep may be lost.
  if note and not old and push.mode ~= 'r' then return answer(4, { version = 0, due = 0 }, 0, 0) end
  if push.only and not old then return answer(3, { version = math.max(seq, us), due = 0 }, 0, 0) end
  if live and push.mode ~= 'r' then return answer(2, old, state_of(old), 0) end
  local job = made(push)
  local f = field_of(job.no, job.tid)
  if old then
    displace(old, f)
  else
    forget(f)
    call('HDEL', P .. ':m', f)
  end
  write_record(job)
  if push.body then call('HSET', P .. ':b', f, push.body) end
  if job.failures > 0 then write_more(job) end
  put_waiting(job)
  answer(1, job, job.due > now and 0 or 1, (live and 1 or 0) + (live and old.state == 2 and 2 or 0))
end

for _, push in ipairs(pushes) do
  local is_first = push.f and is_new[push.f]
  if is_first then is_new[push.f] = false end
  if is_first and not push.only and push.failures == 0 and not (note and push.mode ~= 'r') then
    local job = made(push)
    gather(push.f, job, push.body)
    answer(1, job, job.due > now and 0 or 1, 0)
  else
    push_known(push)
  end
end
write_gathered()
finish()
return table.concat(answers)
