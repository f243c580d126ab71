#!lua flags=allow-oom
-- reserve: leases ready jobs to one owner: wheel over priorities, turns over topics, earliest due first.
-- @keys P
-- @args instance, incarnation, max, max bytes of the reply, capacity and lease (ms) of every other topic,
--   mode. Not in mode `ring`: per priority the last known turn of its ring, then per priority how many later
--   topics to read (0 = enough known). Per named topic: name, capacity, lease (ms), priority of its last
--   known ring ('' = in none)
-- @returns kind; per named topic that has left the known part of a ring: its number in the list, priority;
--   per topic after the known turns: priority, name, turn; per named topic with a new turn: its number in the
--   list, priority, turn; with leased jobs the storage clock (ms), numbers and names of their topics, and one
--   text, per job: length (2) of f and length (4) of the record, f (layout.md), state record, record; the
--   bodies apart follow, in the order of their jobs. kind: 0 no ready job with capacity remains, 1 some
--   remain, 2 none leased: some of the next were quarantined, 3 none leased: there are topics that the caller
--   did not name, 4 none leased: the rings are older than the known turns, 5 none leased: the topics that
--   follow the clock have too many leases, 6 none leased: the bucket lost changes, and its jobs are held
-- @writes end of a hold; ready sets, rings, time of a recover, then leases and state records; numbers last
-- @include clock, numbers, topics, jobs, queues, quarantine, holds, healing, wheel
-- Why: plans from the rings before the first write. A plan cut short by the bytes of the reply is made again,
--   smaller. A plan that meets a member without its job is dropped: the member is quarantined, and the caller
--   asks again. Mode `ring` serves all topics; named ones have their own capacity (no priority). It reads the
--   rings from the start, past each topic without capacity. Modes `look` and `listed` serve only the named
--   topics: a caller with many topics without capacity keeps a copy of the rings (ring-copy.ts), and those
--   topics cost nothing here. Mode `look` leases nothing while unnamed topics stand after the known turns;
--   `listed` does.
local instance, incarnation = tonumber(ARGV[4]), tonumber(ARGV[5])
local max, bytes_max = tonumber(ARGV[6]), tonumber(ARGV[7])
local mode = ARGV[10]
-- Cancelled jobs that came back must not run.
if note and note.phase == 'ends' and note_held() > us then return { 6, {}, {}, {} } end
local from_ring = mode == 'ring'

-- by number: topics of which pullOwner has as many leases as are left. Of many leases a sample of 200 counts:
-- reading 20,000 takes 10 ms.
local is_full, full, left = {}, {}, 1
if instance == 0 then
  local out = call('ZCARD', P .. ':k')
  left = limits.pullLeasesMax - out
  max = math.min(max, math.max(left, 1))
  local sample, held = out >= left and call('ZRANDMEMBER', P .. ':k', 200) or {}, {}
  for _, member in ipairs(sample) do
    local no = is_lease(member) and read_lease(member).no or 0
    held[no] = (held[no] or 0) + 1
  end
  for no, count in pairs(held) do is_full[no] = count * out >= left * #sample end
end
if from_ring and call('EXISTS', P .. ':a:0', P .. ':a:1', P .. ':a:2') == 0 then return { 0, {}, {}, {} } end

-- Index of each name in ARGV; capacity and lease follow it. Read on demand: most are never needed.
local first, places, names = from_ring and 11 or 17, {}, {}
for i = first, #ARGV, 4 do
  local name = ARGV[i]
  places[name] = i
  if from_ring or ARGV[i + 3] ~= '' then names[#names + 1] = name end
end
learn_numbers(names)
local function room_at(place) return tonumber(ARGV[place + 1]) end
local function place_of(name) return places[name] or 7 end

local function new_entry(no, prio) return { no = no, prio = prio, key = P .. ':r:' .. prio .. ':' .. no } end
local rings = {}
for prio = 0, 2 do rings[prio] = { prio = prio, entries = {}, is_read = not from_ring } end

-- Reads 50 topics, then 200 at a time: most plans need no more than the first piece.
local function entry_at(ring, i)
  while i > #ring.entries and not ring.is_read do
    local from = #ring.entries
    local piece = from == 0 and 50 or 200
    local found = call('ZRANGE', P .. ':a:' .. ring.prio, from, from + piece - 1)
    for k, no in ipairs(found) do ring.entries[from + k] = new_entry(tonumber(no), ring.prio) end
    ring.is_read = #found < piece
  end
  return ring.entries[i]
end

-- By number: most topics without capacity are passed over without reading their name.
local places_of_number = {}
for _, name in ipairs(from_ring and names or {}) do
  local no = topic_number(name)
  if no then places_of_number[no] = places[name] end
end
local function room_of(entry)
  if not entry.room then
    local place = places_of_number[entry.no]
    if place and room_at(place) == 0 then return 0 end
    entry.name = topic_name(entry.no)
    entry.room = room_at(place_of(entry.name))
    if entry.room > 0 and (is_full[entry.no] or left <= 0) then
      full[#full + 1] = entry.name
      entry.room = 0
    end
  end
  return entry.room
end

local news, gone, is_new, is_unnamed = {}, {}, {}, false
local function enter(place, no, prio, turn_of)
  local entry, entries = new_entry(no, prio), rings[prio].entries
  entry.turn, entry.number = turn_of, (place - first) / 4 + 1
  entries[#entries + 1] = entry
end

-- Turns only rise, and each change of a ring takes a new one: all later arrivals have higher turns.
local function read_news(prio, known, most)
  local turns = call('ZRANGEBYSCORE', P .. ':a:' .. prio, '(' .. known, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
  local numbers = {}
  for i = 1, #turns, 2 do numbers[#numbers + 1] = turns[i] end
  local found = numbers[1] and call('HMGET', P .. ':T', unpack(numbers)) or {}
  for i, no in ipairs(numbers) do
    local name, turn_of, n = found[i] or '?', tonumber(turns[2 * i]), #news
    news[n + 1], news[n + 2], news[n + 3] = prio, name, turn_of
    topic_names[tonumber(no)] = name
    is_new[prio .. ':' .. no] = true
    if places[name] then enter(places[name], tonumber(no), prio, turn_of) else is_unnamed = true end
  end
end

-- Without capacity for others only the named topics matter.
if from_ring and room_at(7) == 0 then
  for i, name in ipairs(names) do
    local no = topic_number(name)
    for prio = 0, 2 do
      local turn_of = no and tonumber(call('ZSCORE', P .. ':a:' .. prio, no) or '')
      if turn_of then enter(first + 4 * (i - 1), no, prio, turn_of) end
    end
  end
  for prio = 0, 2 do
    rings[prio].is_read = true
    table.sort(rings[prio].entries, function(a, b) return a.turn < b.turn end)
  end
end

if not from_ring then
  for prio = 0, 2 do
    local known, most = ARGV[11 + prio], ARGV[14 + prio]
    if tonumber(known) > turn then return { 4, {}, {}, {} } end
    if most ~= '0' then read_news(prio, known, most) end
  end
  if is_unnamed and mode == 'look' then return { 3, {}, news, {} } end
  for i = first, #ARGV, 4 do
    local prio = tonumber(ARGV[i + 3])
    local no = prio and topic_number(ARGV[i])
    local turn_of = no and tonumber(call('ZSCORE', P .. ':a:' .. prio, no) or '')
    if turn_of and turn_of <= tonumber(ARGV[11 + prio]) then
      enter(i, no, prio, turn_of)
    elseif prio and not (no and is_new[prio .. ':' .. no]) then
      gone[#gone + 1], gone[#gone + 2] = (i - first) / 4 + 1, prio
    end
  end
  for prio = 0, 2 do table.sort(rings[prio].entries, function(a, b) return a.turn < b.turn end) end
end

-- Reads the jobs of a plan, in its order. Returns how many fit in one reply (at least one), and those that
-- are unreadable or misplaced. No job tables: a reserve needs only five numbers of a record.
local members, tids, fields, records, mores = {}, {}, {}, {}, {}
local function look(plan)
  local taken, at = {}, {}
  for entry, count in pairs(plan.taken) do taken[entry], at[entry] = call('ZRANGE', entry.key, 0, count - 1), 0 end
  for i, entry in ipairs(plan.deals) do
    local nth = at[entry] + 1
    at[entry] = nth
    -- '' if the ring names a queue that is gone.
    local member = taken[entry][nth] or ''
    local tid = is_entry(member) and tid_of(member) or ''
    members[i], tids[i], fields[i] = member, tid, field_of(entry.no, tid)
  end
  records, mores = call('HMGET', P .. ':j', unpack(fields)), call('HMGET', P .. ':m', unpack(fields))
  local bytes, without = 0, {}
  for i, entry in ipairs(plan.deals) do
    local record, more = records[i], mores[i]
    local flags = record and is_whole(record, more) and record:byte(1)
    local apart = flags and flags % 64 >= 32 and call('HSTRLEN', P .. ':b', fields[i])
    if flags and not (more and more:byte(1) ~= 0) and flags % 4 == entry.prio and apart ~= 0
      and record:sub(8, 14) == members[i]:sub(1, 7) then
      bytes = bytes + limits.idBytesMax + #record + (apart or 0)
      if i > 1 and bytes > bytes_max then return i - 1, without end
    else
      without[#without + 1] = { entry = entry, member = members[i], tid = tids[i], is_bodiless = apart == 0 }
    end
  end
  return #plan.deals, without
end

local position = tonumber(head[5] or '0')
local plan = deal(rings, entry_at, position, max, room_of)
if #plan.deals == 0 then
  if full[1] then return { 5, gone, news, {}, now, unpack(full) } end
  return { plan.more and 1 or 0, gone, news, {} }
end
local fitting, without = look(plan)
if without[1] then
  for _, its in ipairs(without) do
    local set = ':r:' .. its.entry.prio .. ':' .. its.entry.no
    if its.entry.count == 0 then call('ZREM', P .. ':a:' .. its.entry.prio, its.entry.no) end
    -- A whole job in another set stays there; only this member is quarantined.
    local is_elsewhere = not is_entry(its.member) or (not its.is_bodiless and find_in(its.entry.no, its.tid))
    local quarantine = is_elsewhere and quarantine_member or quarantine_job
    quarantine(its.entry.no, its.tid, set, its.member)
  end
  finish()
  return { 2, gone, news, {} }
end
if fitting < #plan.deals then plan = deal(rings, entry_at, position, fitting, room_of) end

local served, named = {}, {}
for _, entry in ipairs(plan.order) do
  named[#named + 1], named[#named + 2] = entry.no, entry.name
  call('ZREMRANGEBYRANK', entry.key, 0, plan.taken[entry] - 1)
  if plan.taken[entry] < entry.count then
    call('ZADD', P .. ':a:' .. entry.prio, next_turn(), entry.no)
    if entry.number then
      local n = #served
      served[n + 1], served[n + 2], served[n + 3] = entry.number, entry.prio, turn
    end
  else
    call('ZREM', P .. ':a:' .. entry.prio, entry.no)
    if entry.number then gone[#gone + 1], gone[#gone + 2] = entry.number, entry.prio end
  end
end
local leases, states, parts, bodies = {}, {}, {}, {}
local ends, _ = {}
for i = 1, fitting do
  local entry, tid, record, more = plan.deals[i], tids[i], records[i], mores[i]
  local flags, due, version = struct.unpack('>BI6I7', record)
  local failures, strikes, dead_at, reason = 0, 0, 0, 0
  if more then _, failures, strikes, _, _, _, dead_at, reason = struct.unpack('>BI2BI7I4I6I6B', more) end
  local token = draw()
  local lease_ms = instance == 0 and own_lease(job_of(entry.no, tid, record)) or tonumber(ARGV[place_of(entry.name) + 2])
  if not ends[lease_ms] then ends[lease_ms] = digits(now + lease_ms) end
  leases[2 * i - 1] = ends[lease_ms]
  leases[2 * i] = lease_text(token, instance, incarnation, due, version, entry.no, entry.prio, tid)
  states[2 * i - 1] = fields[i]
  states[2 * i] = more_text(2, failures, strikes, token, instance, incarnation, dead_at, reason)
  parts[4 * i - 3], parts[4 * i - 2] = struct.pack('>I2I4', #fields[i], #record), fields[i]
  parts[4 * i - 1], parts[4 * i] = states[2 * i], record
  if flags % 64 >= 32 then bodies[#bodies + 1] = call('HGET', P .. ':b', fields[i]) end
end
-- The first lease counts as a recover: an outage before it could not delay its outcome.
if call('EXISTS', P .. ':l', P .. ':k') == 0 then call('HSET', P .. ':n', 'recover-asked', digits(now)) end
call('ZADD', P .. (instance == 0 and ':k' or ':l'), unpack(leases))
call('HSET', P .. ':m', unpack(states))
call('HSET', P .. ':n', 'wheel', plan.position)
finish()
return { plan.more and 1 or 0, gone, news, served, now, named, table.concat(parts), unpack(bodies) }
