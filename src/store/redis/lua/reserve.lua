#!lua flags=allow-oom
-- reserve: leases ready jobs to one owner: by the wheel over priorities, in turn over topics, earliest due first inside one.
-- @keys P
-- @args instance, incarnation, max, most bytes of the answer, room and lease (ms) of every other topic; per topic with its
--   own: name, room, lease (ms)
-- @returns 1 when ready jobs remain that had room, 2 when none was leased because some of the next were set aside; per job: topic, tag+id, token, what has happened to it, record, body
--   apart ('' = it lies in the record)
-- @writes the ready sets, the rings, then leases and what has happened to each; numbers last
-- @include clock, numbers, topics, jobs, queues, aside, wheel
-- Why: planned from the rings before anything is written; a plan cut short by the bytes of the answer is made again, smaller, and
--   one that met a member without its job is given up: what it met is set aside, and the caller asks again.
local instance, incarnation = tonumber(ARGV[4]), tonumber(ARGV[5])
local max, bytes_max = tonumber(ARGV[6]), tonumber(ARGV[7])
local others = { room = tonumber(ARGV[8]), lease = tonumber(ARGV[9]) }
if call('EXISTS', P .. ':a:0', P .. ':a:1', P .. ':a:2') == 0 then return { 0 } end

local rooms = {}
for i = 10, #ARGV, 3 do rooms[ARGV[i]] = { room = tonumber(ARGV[i + 1]), lease = tonumber(ARGV[i + 2]) } end
local function room_of(entry) return (rooms[entry.name] or others).room end

local rings = {}
for prio = 0, 2 do
  rings[prio] = {}
  for i, no in ipairs(call('ZRANGE', P .. ':a:' .. prio, 0, -1)) do
    rings[prio][i] = { no = tonumber(no), prio = prio, key = P .. ':r:' .. prio .. ':' .. no, name = topic_name(tonumber(no)) }
  end
end

-- The jobs of a plan, in its order, and how many of them have room in one answer: one always has.
local function look(plan)
  local members, at, fields = {}, {}, {}
  for entry, count in pairs(plan.taken) do members[entry] = call('ZRANGE', entry.key, 0, count - 1) end
  local jobs = {}
  for i, entry in ipairs(plan.deals) do
    at[entry] = (at[entry] or 0) + 1
    -- '' where a ring names a queue that is not there any more.
    local member = members[entry][at[entry]] or ''
    local tid = is_entry(member) and tid_of(member) or ''
    fields[i] = field_of(entry.no, tid)
    jobs[i] = { entry = entry, member = member, tid = tid, f = fields[i] }
  end
  local records, mores = call('HMGET', P .. ':j', unpack(fields)), call('HMGET', P .. ':m', unpack(fields))
  local bytes, without = 0, {}
  for i, its in ipairs(jobs) do
    local record = records[i]
    local job = record and is_whole(record, mores[i]) and job_of(its.entry.no, its.tid, record, mores[i])
    local apart = job and job.apart and call('HSTRLEN', P .. ':b', its.f)
    if job and job.state == 0 and job.prio == its.entry.prio and apart ~= 0 and record:sub(8, 14) == its.member:sub(1, 7) then
      its.record, its.job = record, job
      bytes = bytes + limits.idBytesMax + #record + (apart or 0)
      if i > 1 and bytes > bytes_max then return jobs, i - 1, without end
    else
      its.is_bodiless = apart == 0
      without[#without + 1] = its
    end
  end
  return jobs, #jobs, without
end

local position = tonumber(head[5] or '0')
local plan = deal(rings, position, max, room_of)
if #plan.deals == 0 then return { plan.more and 1 or 0 } end
local jobs, fitting, without = look(plan)
if without[1] then
  for _, its in ipairs(without) do
    local set = ':r:' .. its.entry.prio .. ':' .. its.entry.no
    if its.entry.count == 0 then call('ZREM', P .. ':a:' .. its.entry.prio, its.entry.no) end
    -- A job that stands elsewhere is well there.
    local is_elsewhere = not is_entry(its.member) or (not its.is_bodiless and find_in(its.entry.no, its.tid))
    local set_aside = is_elsewhere and set_member_aside or set_job_aside
    set_aside(its.entry.no, its.tid, set, its.member)
  end
  finish()
  return { 2 }
end
if fitting < #plan.deals then plan = deal(rings, position, fitting, room_of) end

for _, entry in ipairs(plan.order) do
  call('ZREMRANGEBYRANK', entry.key, 0, plan.taken[entry] - 1)
  if plan.taken[entry] < entry.count then
    call('ZADD', P .. ':a:' .. entry.prio, next_turn(), entry.no)
  else
    call('ZREM', P .. ':a:' .. entry.prio, entry.no)
  end
end
local answer, leases, mores = { plan.more and 1 or 0 }, {}, {}
for i = 1, fitting do
  local its = jobs[i]
  local job = its.job
  job.state, job.token, job.instance, job.incarnation = 2, draw(), instance, incarnation
  leases[2 * i - 1] = digits(now + (rooms[its.entry.name] or others).lease)
  leases[2 * i] = lease_of(job)
  mores[2 * i - 1] = its.f
  mores[2 * i] = more_of(job)
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = its.entry.name, its.tid, job.token, mores[2 * i]
  answer[n + 5], answer[n + 6] = its.record, job.apart and call('HGET', P .. ':b', its.f) or ''
end
call('ZADD', P .. ':l', unpack(leases))
call('HSET', P .. ':m', unpack(mores))
call('HSET', P .. ':n', 'wheel', plan.position)
finish()
return answer
