-- queues: where a waiting job stands. Delayed jobs lie per topic by due time, and the heads of the topics in :d, so that the
-- earliest of all is found at once; ready jobs lie per priority and topic, and the topics of a priority that have any in its
-- ring, in the order of their turns. Within one score the lower version comes first, everywhere.
-- Why: a topic of its own can be counted, listed, searched and purged without touching the others.
-- Versions are compared as numbers, never as strings: Lua compares those by the server's locale.
-- 0 for what is no member: it comes first, and is set aside when its time has come.
local function version_of(member) return #member >= 7 and struct.unpack('>I7', member) or 0 end

-- The hint of a head is judged by what a script has changed in all: what was there before its first change, and what is there at its
-- end. That of a ready queue by each queue of a topic: jobs that must wait in another one are no reason to be silent.
local head_was
local queue_began = false
local function look_at_head()
  if head_was == nil then head_was = tonumber(call('ZRANGE', P .. ':d', 0, 0, 'WITHSCORES')[2] or 'inf') or math.huge end
end

-- Of one topic; members: due and entry of each.
local function put_all_delayed(no, members)
  look_at_head()
  local key = P .. ':d:' .. no
  local was = call('ZRANGE', key, 0, 0)[1]
  call('ZADD', key, unpack(members))
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[1] == was then return end
  if was then call('ZREM', P .. ':d', struct.pack('>I7I3', version_of(was), no)) end
  call('ZADD', P .. ':d', first[2], struct.pack('>I7I3', version_of(first[1]), no))
end

local function put_delayed(job) put_all_delayed(job.no, { job.due, entry_of(job) }) end

local function take_delayed(job)
  look_at_head()
  local key = P .. ':d:' .. job.no
  call('ZREM', key, entry_of(job))
  -- It was the head of its topic if it stands among the heads.
  if call('ZREM', P .. ':d', struct.pack('>I7I3', job.version, job.no)) == 0 then return end
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[1] then call('ZADD', P .. ':d', first[2], struct.pack('>I7I3', version_of(first[1]), job.no)) end
end

local turn = tonumber(head[4] or '0')
local turned = false
local function next_turn()
  turn = turn + 1
  turned = true
  return turn
end

-- Its topic has a first ready job of this priority.
local function join_ring(prio, no)
  call('ZADD', P .. ':a:' .. prio, next_turn(), no)
  queue_began = true
end

-- Of one priority and topic; members: due and entry of each.
local function put_all_ready(prio, no, members)
  local key = P .. ':r:' .. prio .. ':' .. no
  call('ZADD', key, unpack(members))
  if call('ZCARD', key) == #members / 2 then join_ring(prio, no) end
end

local function put_ready(job) put_all_ready(job.prio, job.no, { job.due, entry_of(job) }) end

local function take_ready(job)
  local key = P .. ':r:' .. job.prio .. ':' .. job.no
  call('ZREM', key, entry_of(job))
  if call('EXISTS', key) == 0 then call('ZREM', P .. ':a:' .. job.prio, job.no) end
end

local function is_ready(job) return call('ZSCORE', P .. ':r:' .. job.prio .. ':' .. job.no, entry_of(job)) and true or false end

-- 0 delayed, 1 ready, 2 reserved, 3 dead
local function state_of(job)
  if job.state == 0 and is_ready(job) then return 1 end
  return job.state
end

-- Where its due time says.
local function put_waiting(job)
  if job.due > now then put_delayed(job) else put_ready(job) end
end

-- All is written by now: a user who may not publish must not make a failure of it.
local function hint(text) redis.pcall('PUBLISH', P .. ':hint', text) end

-- The last thing of a script that has put or taken a job. Hints are lossy: nothing but lateness depends on them.
local function finish()
  keep_numbers()
  if turned then call('HSET', P .. ':n', 'turn', turn) end
  if queue_began then hint('ready') end
  if head_was ~= nil then
    local due = tonumber(call('ZRANGE', P .. ':d', 0, 0, 'WITHSCORES')[2] or 'inf') or math.huge
    if due < head_was then hint(digits(math.max(0, due - now))) end
  end
end
