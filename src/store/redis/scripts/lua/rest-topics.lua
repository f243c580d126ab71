#!lua flags=allow-oom
-- restTopics: puts topics at rest that hold nothing that moves, and frees the numbers of those that hold nothing at all.
-- @keys P
-- @args how many of the topics in use come before, how many to look at
-- @returns how many come before the next piece; -1 = there is none; freed numbers
-- @writes numbers that :u lacks; per topic at rest: its number is marked, its score; per free one: number, name, score
-- @include clock, numbers, topics, jobs
-- Why: ends go in the order of their time. All that a topic at rest may have are older than its score: when the oldest end of
--   the bucket is younger, it has none, and its number lies nowhere any more. Nobody counts ends by topic for that: it would
--   cost each of them a write more.
local before, most = tonumber(ARGV[4]), tonumber(ARGV[5])

-- Numbers that a version has given which knows no :u, since mark looked for them.
if before == 0 and call('HLEN', P .. ':T') ~= call('ZCOUNT', P .. ':u', 0, '+inf') then
  for _, no in ipairs(call('HKEYS', P .. ':T')) do
    if (tonumber(call('ZSCORE', P .. ':u', no) or '-1')) < 0 then call('ZADD', P .. ':u', 0, no) end
  end
end

-- Leases and claims are bounded by what their holders have room for.
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
  -- Another version may have given its topic another number.
  if topic_number(name) == tonumber(number) then call('HDEL', P .. ':t', name) end
  call('HDEL', P .. ':T', number)
  call('HDEL', P .. ':ot', number)
  call('ZADD', P .. ':u', -1, number)
end
return { #numbers < most and -1 or before + #numbers - rested, #free }
