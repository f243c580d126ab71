#!lua flags=no-writes,allow-oom
-- examine: examines one piece of the bucket and names broken invariants.
-- @keys P
-- @args step, cursor ('0' = from the start)
-- @returns next cursor ('0' = end of the step), jobs seen; per problem: its number (examination.ts), topic
--   and tag+id
-- @include clock, numbers, topics, jobs, queues, alerts
-- Why: bounded pieces between other calls; one piece judges each of its jobs whole. It never writes.
local step, cursor = ARGV[4], ARGV[5]
local problems, jobs = {}, 0
local function wrong(number, no, tid)
  problems[#problems + 1] = number
  problems[#problems + 1] = no and topic_name(no) or '?'
  problems[#problems + 1] = tid
end

local function split(f) return struct.unpack('>I3', f), f:sub(4) end

-- Whether the job is in exactly one set, and in the set of its state.
local function judge_place(job)
  local entry = entry_of(job)
  local delayed = call('ZSCORE', P .. ':d:' .. job.no, entry)
  local places, right = delayed and 1 or 0, job.state == 0 and tonumber(delayed or '') == job.due
  for prio = 0, 2 do
    local ready = call('ZSCORE', P .. ':r:' .. prio .. ':' .. job.no, entry)
    if ready then places = places + 1 end
    if job.state == 0 and prio == job.prio and tonumber(ready or '') == job.due then right = true end
  end
  for _, set in ipairs(job.token and { ':l', ':k' } or {}) do
    if call('ZSCORE', P .. set, lease_of(job)) then places, right = places + 1, job.state == 2 and set == lease_set(job) end
  end
  local dead = call('ZSCORE', P .. ':x:' .. job.no, entry)
  if dead then
    places = places + 1
    right = job.state == 3 and tonumber(dead) == job.dead_at and call('ZSCORE', P .. ':y:' .. job.no, entry) ~= false
      and call('ZSCORE', P .. ':x', struct.pack('>I7', job.version) .. field_of(job.no, job.tid)) ~= false
  end
  return places == 1 and right
end

local function judge_job(f, record)
  local no, tid = split(f)
  jobs = jobs + 1
  if topic_name(no) == '?' then return wrong(2, nil, tid) end
  local more = call('HGET', P .. ':m', f)
  if not is_whole(record, more) then return wrong(14, no, tid) end
  local job = job_of(no, tid, record, more)
  if not judge_place(job) then wrong(0, no, tid) end
  if job.apart and call('HEXISTS', P .. ':b', f) == 0 then wrong(1, no, tid) end
  if job.version > seq or (job.state >= 2 and job.token > seq) then wrong(3, no, tid) end
  if job.state == 3 and not find_alert(job.version) then wrong(4, no, tid) end
  if call('HEXISTS', P .. ':h', f) == 1 then wrong(5, no, tid) end
end

local function is_there(no, tid, version)
  local job = find_in(no, tid)
  return job and job.version == version
end

-- Rows of the hashes, by field.
local judge_field = {
  j = judge_job,
  m = function(f) if call('HEXISTS', P .. ':j', f) == 0 then wrong(6, split(f)) end end,
  b = function(f) if call('HEXISTS', P .. ':j', f) == 0 then wrong(7, split(f)) end end,
  p = function(f)
    if call('HEXISTS', P .. ':j', f) + call('HEXISTS', P .. ':h', f) ~= 1 then wrong(8, split(f)) end
  end,
  h = function(f, record)
    if #record < 35 then return wrong(14, split(f)) end
    local _, _, _, version = struct.unpack('>BI2I6I7', record)
    if not call('ZSCORE', P .. ':e', struct.pack('>I7', version) .. f) then wrong(9, split(f)) end
  end,
  q = function(_, record)
    local topic, tid = read_quarantined(record)
    wrong(15, nil, tid)
    problems[#problems - 1] = topic
  end,
  o = function(member, record)
    if not is_whole_alert(record) then return wrong(14, nil, 'version ' .. digits(version_of(member))) end
    local alert = read_alert(version_of(member), record)
    local set = alert.state == 0 and call('ZSCORE', P .. ':ow:' .. alert.no, member)
      or alert.state == 1 and call('ZSCORE', P .. ':oc', claim_of(alert))
      or alert.state >= 2 and call('ZSCORE', P .. ':os', member)
    if not set or not call('ZSCORE', P .. ':oa', member) then wrong(10, alert.no, alert.tid) end
    if alert.state >= 2 and not is_there(alert.no, alert.tid, alert.version) then wrong(11, alert.no, alert.tid) end
  end,
}

-- Members of the sorted sets.
local function judge_member(set, no, member)
  if set == 'l' or set == 'k' then
    if not is_lease(member) then return wrong(12, nil, '') end
    local lease = read_lease(member)
    local job = find_in(lease.no, lease.tid)
    if not job or job.state ~= 2 or lease_set(job) ~= ':' .. set or lease_of(job) ~= member then wrong(12, lease.no, lease.tid) end
  elseif set == 'e' then
    if call('HEXISTS', P .. ':h', member:sub(8)) == 0 then wrong(9, split(member:sub(8))) end
  elseif set == 'oa' or set == 'os' or set == 'ow' then
    if not find_alert(version_of(member)) then wrong(10, no, 'version ' .. digits(version_of(member))) end
  elseif set == 'x' and not no then
    if #member < 12 then return wrong(12, nil, '') end
    if not is_there(struct.unpack('>I3', member, 8), member:sub(11), version_of(member)) then wrong(12, split(member:sub(8))) end
  else
    if not is_entry(member) then return wrong(12, no, '') end
    local tid = tid_of(member)
    local job = find_in(no, tid)
    if not job or entry_of(job) ~= member then wrong(12, no, tid) end
  end
end

-- Whether the head of the topic's delayed set and its rings match its sets, and its name leads to it.
local function judge_topic(no)
  local name = topic_name(no)
  if name ~= '?' and topic_number(name) ~= no then wrong(16, no, '') end
  local first = call('ZRANGE', P .. ':d:' .. no, 0, 0, 'WITHSCORES')
  if first[1] then
    local among = call('ZSCORE', P .. ':d', struct.pack('>I7I3', version_of(first[1]), no))
    if not among or tonumber(among) ~= tonumber(first[2]) then wrong(13, no, '') end
  end
  for prio = 0, 2 do
    local rung = call('ZSCORE', P .. ':a:' .. prio, no) and 1 or 0
    if rung ~= call('EXISTS', P .. ':r:' .. prio .. ':' .. no) then wrong(13, no, '') end
  end
end

if judge_field[step] then
  local found = call('HSCAN', P .. ':' .. step, cursor, 'COUNT', 200)
  for i = 1, #found[2], 2 do judge_field[step](found[2][i], found[2][i + 1]) end
  return { found[1], jobs, unpack(problems) }
elseif step == 'count' then
  return { '0', numbers_in_use('+inf') }
elseif step == 'topics' then
  local at, numbers = tonumber(cursor), numbers_in_use('+inf')
  for i = at + 1, math.min(at + 200, #numbers) do judge_topic(numbers[i]) end
  if at == 0 and call('ZCARD', P .. ':d') > #numbers then wrong(13, nil, '') end
  return { at + 200 < #numbers and digits(at + 200) or '0', 0, unpack(problems) }
end
local set, no = step:match('^(%a+)'), tonumber(step:match(':(%d+)$') or '')
local found = call('ZSCAN', P .. ':' .. step, cursor, 'COUNT', 200)
for i = 1, #found[2], 2 do judge_member(set, no, found[2][i]) end
return { found[1], 0, unpack(problems) }
