#!lua
-- push: stores jobs in order, each checked by itself.
-- @keys P
-- @args one text with all jobs, then each body that lies apart, in their order. Per job: length (1) and
--   topic, length (2) and tag+id, mode (r replace, k keep, j reject; a capital with a window), 1 = only if
--   the id lives here, number that the version must exceed (7), flags (priority + 4 × content type + 32 with
--   a body apart + 64 with a past + 128 if the tail begins with an extension block), d = delay or a = epoch
--   (ms, 6), length (2) and tail; the past of an imported job: acceptedAt (ms, 6), failures (2); the window
--   (ms, 6)
-- @returns one text, per job: kind (1 stored, 2 a live job is unchanged, 3 absent, 4 unknown whether a live
--   job exists, or when the last one ended: it may be lost, 5 the last one ended within the window), state
--   (5: the end, 255 dead), 1 replaced + 2 was reserved, version (7; absent: a number no lower than any given
--   here), due (6); 5: when it ended (6)
-- @writes the list number, if it was lower; the replaced job's set, then record, body, set; new jobs in one
--   piece; numbers
-- @include list, clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing
-- Why: without allow-oom a server over its maxmemory rejects the whole script before its first write. Most
--   ids are new: looked up and written together, a hundred per call take 6 µs each; with commands of their
--   own they took 10.
if list < its_list then call('HSET', P .. ':n', 'list', ARGV[2]) end

-- A first pass over the text finds where each job begins and its field; nil for an unknown topic.
local text = ARGV[4]
local starts, fields, known, count, at = {}, {}, {}, 0, 1
while at <= #text do
  local topic, tid, next_at = struct.unpack('>Bc0 I2c0', text, at)
  count = count + 1
  starts[count] = at
  local no = topic_number(topic)
  if no then
    local f = field_of(no, tid)
    fields[count], known[#known + 1] = f, f
  end
  local past = text:byte(next_at + 9) % 128 >= 64 and 8 or 0
  local window = text:byte(next_at) < 97 and 6 or 0
  at = next_at + 19 + past + window + struct.unpack('>I2', text, next_at + 17)
end

-- Ids with neither a job nor a history entry; of an id that comes twice, only the first. And the entries: no
-- job ends in this script.
local is_new, ended_of = {}, {}
if known[1] then
  local records, ended = call('HMGET', P .. ':j', unpack(known)), call('HMGET', P .. ':h', unpack(known))
  for i, f in ipairs(known) do
    if is_new[f] == nil then is_new[f], ended_of[f] = not records[i] and not ended[i], ended[i] end
  end
end

-- now has lost its fraction of a millisecond: without one more the job would be early by it.
local function due_of(from, ms)
  if from == 'a' then return ms > now and ms or now end
  return ms == 0 and now or now + ms + 1
end

local answers = {}
local function answer(kind, state, bits, version, due) return struct.pack('>BBBI7I6', kind, state, bits, version, due) end

-- New jobs, gathered and written in one piece; queues in the order of their first jobs, which is the order of
-- turns. No table per job: the record and the member are made from the text.
local records, gathered, bodies, bodies_count, queues, queue_of = {}, 0, {}, 0, {}, {}
local fields_of_new = {}
local function queue_for(topic, prio)
  local queue = { no = topic_number_made(topic), prio = prio, members = {}, count = 0 }
  if not queue_of[topic] then queue_of[topic] = {} end
  queue_of[topic][prio], queues[#queues + 1] = queue, queue
  return queue
end

-- A lost record may have left a state record and attempts, and a build that does not look for the attempts
-- of a requeued job may have left those: they must not become those of the new job.
local function forget_lost(absent)
  call('HDEL', P .. ':m', unpack(absent))
  call('HDEL', P .. ':p', unpack(absent))
end

local function write_gathered()
  if gathered == 0 then return end
  call('HSET', P .. ':j', unpack(records))
  forget_lost(fields_of_new)
  if bodies_count > 0 then call('HSET', P .. ':b', unpack(bodies)) end
  for _, queue in ipairs(queues) do
    if queue.prio == 3 then put_all_delayed(queue.no, queue.members)
    else put_all_ready(queue.prio, queue.no, queue.members) end
  end
  records, gathered, bodies, bodies_count, queues, queue_of = {}, 0, {}, 0, {}, {}
  fields_of_new = {}
end

local function answer_ended(how, version, due, ended_at)
  return answer(5, how, 0, version, due) .. struct.pack('>I6', ended_at)
end

-- The answer to a push whose last job died, was done (0) or cancelled (1) within its window. An end further
-- ahead than the window is of a clock that was set back.
local function last_end(old, ended, window)
  if old then
    if old.state == 3 and math.abs(now - old.dead_at) < window then return answer_ended(255, old.version, old.due, old.dead_at) end
  elseif ended and #ended >= 35 then
    local how, _, due, version, _, _, ended_at = struct.unpack('>BI2I6I7I7I6I6', ended)
    if how < 2 and math.abs(now - ended_at) < window then return answer_ended(how, version, due, ended_at) end
  end
end

local function push_known(topic, tid, mode, window, ended, only, above, flags, due, accepted, failures, tail, body)
  write_gathered()
  local old = find(topic, tid)
  local live = old and old.state ~= 3
  -- The live job that it should keep, or the last end, may be lost.
  if note and not old and (mode ~= 'r' or window > 0) then return answer(4, 0, 0, 0, 0) end
  if window > 0 then
    local last = last_end(old, ended, window)
    if last then return last end
  end
  if only == 1 and not old then return answer(3, 0, 0, math.max(seq, us), 0) end
  if live and mode ~= 'r' then return answer(2, state_of(old), 0, old.version, old.due) end
  rise_above(above)
  local version = draw()
  local job = { no = topic_number_made(topic), tid = tid, due = due, version = version, origin = version,
    accepted = accepted, flags = flags, prio = flags % 4, tail = tail, state = 0, failures = failures, strikes = 0 }
  local f = field_of(job.no, tid)
  if old then
    displace(old, f)
  else
    forget(f)
    forget_lost({ f })
  end
  write_record(job)
  if body then call('HSET', P .. ':b', f, body) end
  if failures > 0 then write_more(job) end
  put_waiting(job)
  return answer(1, due > now and 0 or 1, (live and 1 or 0) + (live and old.state == 2 and 2 or 0), version, due)
end

-- Text, made once per time: Redis prints a number that is an argument with 17 digits, which takes 1 µs.
local apart, now_text, due_texts = 4, digits(now), {}
for i = 1, count do
  local topic, tid, mode, only, above, flags, from, ms, tail, past_at =
    struct.unpack('>Bc0 I2c0 c1 B I7 B c1I6 I2c0', text, starts[i])
  local f, due, accepted, failures, window, body = fields[i], due_of(from, ms), now, 0, 0, nil
  if flags % 64 >= 32 then
    apart = apart + 1
    body = ARGV[apart]
  end
  if flags % 128 >= 64 then
    accepted, failures, past_at = struct.unpack('>I6I2', text, past_at)
    accepted = math.min(accepted, now)
    flags = flags - 64
  end
  if mode:byte() < 97 then
    mode, window = mode:lower(), struct.unpack('>I6', text, past_at)
  end
  local is_first = f and is_new[f]
  if is_first then is_new[f] = false end
  if is_first and only == 0 and failures == 0 and not (note and (mode ~= 'r' or window > 0)) then
    rise_above(above)
    local version, prio = draw(), flags % 4
    local n = 2 * gathered
    gathered = gathered + 1
    records[n + 1], records[n + 2] = f, record_text(flags, due, version, version, accepted, tail)
    fields_of_new[gathered] = f
    if body then
      bodies[bodies_count + 1], bodies[bodies_count + 2] = f, body
      bodies_count = bodies_count + 2
    end
    local is_delayed = due > now
    local at_prio = is_delayed and 3 or prio
    local queue = queue_of[topic]
    queue = queue and queue[at_prio] or queue_for(topic, at_prio)
    local members, m = queue.members, queue.count
    local score = now_text
    if is_delayed then
      score = due_texts[due] or digits(due)
      due_texts[due] = score
    end
    members[m + 1], members[m + 2] = score, entry_text(version, prio, tid)
    queue.count = m + 2
    answers[i] = answer(1, is_delayed and 0 or 1, 0, version, due)
  else
    answers[i] = push_known(topic, tid, mode, window, f and ended_of[f], only, above, flags, due, accepted, failures, tail, body)
  end
end
write_gathered()
finish()
return table.concat(answers)
