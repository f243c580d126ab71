-- queues: the sets of waiting jobs. Delayed jobs are sorted per topic by due time; :d holds the head of each
-- topic, so that the earliest of all is found at once. Ready jobs are sorted per priority and topic; the ring
-- of a priority holds the topics that have any, in the order of their turns. Within one score the lower
-- version comes first, everywhere.
-- Why: one topic can be counted, listed, searched and purged without touching the others.
-- Versions are compared as numbers: Lua compares strings by the server's locale.

-- 0 for an invalid member: it sorts first, and is quarantined when it is due.
local function version_of(member) return #member >= 7 and struct.unpack('>I7', member) or 0 end

-- A `due` hint compares the head before the script's first change with the head at its end. A `ready` hint
-- follows whenever the queue of any topic begins, even while jobs of other topics wait.
local head_was
local queue_began = false
local function look_at_head()
  if head_was == nil then head_was = tonumber(call('ZRANGE', P .. ':d', 0, 0, 'WITHSCORES')[2] or 'inf') or math.huge end
end

-- members: due time and entry of each job of one topic
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
  -- Only the head of a topic is in :d.
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

-- Called with the first ready job of a topic and priority.
local function join_ring(prio, no)
  call('ZADD', P .. ':a:' .. prio, next_turn(), no)
  queue_began = true
end

-- members: due time and entry of each job of one priority and topic
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

-- Delayed or ready, by its due time.
local function put_waiting(job)
  if job.due > now then put_delayed(job) else put_ready(job) end
end

-- All is written: a user without the right to publish must not turn that into a failure.
local function hint(text) redis.pcall('PUBLISH', P .. ':hint', text) end

-- Called last by every script that put or took a job. Hints are lossy: without them jobs are only late.
local function finish()
  keep_numbers()
  if turned then call('HSET', P .. ':n', 'turn', turn) end
  if queue_began then hint('ready') end
  if head_was ~= nil then
    local due = tonumber(call('ZRANGE', P .. ':d', 0, 0, 'WITHSCORES')[2] or 'inf') or math.huge
    if due < head_was then hint(digits(math.max(0, due - now))) end
  end
end
