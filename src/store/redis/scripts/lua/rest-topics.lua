#!lua flags=allow-oom
-- restTopics: puts topics at rest that hold only history, and frees the numbers of those that hold nothing.
-- @keys P
-- @args number of topics in use to skip, number to examine
-- @returns number to skip in the next call, -1 = end; freed numbers
-- @writes per topic at rest: its number, its score; per free one: number, name, score
-- @include clock, numbers, topics, jobs
-- Why: history entries are removed in the order of their ends. All entries of a topic at rest ended before
--   its score: when the oldest entry of the bucket is younger, the topic has none. Counting entries per topic
--   would cost each one a write.
local before, most = tonumber(ARGV[4]), tonumber(ARGV[5])

-- Leases and claims are bounded by the capacity of their owners.
local busy = {}
local function note(key, at)
  local first = 0
  repeat
    local piece = call('ZRANGE', key, first, first + 999)
    for _, member in ipairs(piece) do
      if #member >= at + 2 then busy[struct.unpack('>I3', member, at)] = true end
    end
    first = first + #piece
  until #piece == 0
end

local function holds_anything(no)
  if busy[no] then return true end
  local keys = {}
  for i, set in ipairs({ 'd', 'r:0', 'r:1', 'r:2', 'x', 'y', 'ow' }) do keys[i] = P .. ':' .. set .. ':' .. no end
  return call('EXISTS', unpack(keys)) > 0
end

local function was_told_of(no)
  local at = tonumber(call('HGET', P .. ':ot', no) or '')
  return at and now - at < limits.alertWindowMs
end

local numbers = call('ZRANGEBYSCORE', P .. ':u', 0, 0, 'LIMIT', before, most)
if numbers[1] then
  note(P .. ':l', 31)
  note(P .. ':k', 31)
  note(P .. ':oc', 8)
end
local last = tonumber(call('ZRANGE', P .. ':e', -1, -1, 'WITHSCORES')[2] or '0')
local rested = 0
for _, number in ipairs(numbers) do
  local no = tonumber(number)
  local name = topic_name(no)
  if name ~= '?' and not holds_anything(no) and not was_told_of(no) then
    call('HSET', P .. ':t', name, no .. ' at rest')
    call('ZADD', P .. ':u', digits(math.max(now, last)), no)
    call('HDEL', P .. ':ot', no)
    rested = rested + 1
  end
end

local oldest = call('ZRANGE', P .. ':e', 0, 0, 'WITHSCORES')[2]
local free = call('ZRANGEBYSCORE', P .. ':u', 1, oldest and '(' .. oldest or '+inf', 'LIMIT', 0, most)
for _, number in ipairs(free) do
  local name = topic_name(tonumber(number))
  -- An older version may have given the topic another number.
  if topic_number(name) == tonumber(number) then call('HDEL', P .. ':t', name) end
  call('HDEL', P .. ':T', number)
  call('HDEL', P .. ':ot', number)
  call('ZADD', P .. ':u', -1, number)
end
return { #numbers < most and -1 or before + #numbers - rested, #free }
