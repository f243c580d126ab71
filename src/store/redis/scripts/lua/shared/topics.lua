-- topics: numbers for names, per bucket, from 1 to 2^24 - 1. User text is only a value, never part of a key.
-- A number is part of the fields of jobs and of history entries, so it stays with its topic while one of them
-- exists. A topic is in use, or at rest: it then holds at most history entries (rest-topics.lua), its number
-- is marked, and a push brings it back into use. Scores in :u: 0 in use; at rest, the latest end that it may
-- have (ms); -1 free for the next topic.
-- Why: counts, searches and alerts visit only the topics in use.
local topic_numbers, at_rest = {}, {}
local function learn_number(name, kept)
  local no = tonumber(kept)
  if kept and not no then
    no = tonumber(kept:match('^%d+'))
    at_rest[name] = true
  end
  topic_numbers[name] = no
  return no
end

local function topic_number(name)
  return topic_numbers[name] or learn_number(name, call('HGET', P .. ':t', name))
end

-- Reads the numbers of many names, 1,000 per command: Lua unpacks at most 8,000. An unknown name is read
-- again later.
local function learn_numbers(names)
  for from = 1, #names, 1000 do
    local to = math.min(from + 999, #names)
    local kept = call('HMGET', P .. ':t', unpack(names, from, to))
    for i = from, to do learn_number(names[i], kept[i - from + 1]) end
  end
end

local topics = tonumber(head[6] or '0')

-- All numbers of a lost :t, from the names. With another number a topic would not find the jobs that it has.
local function remake_lost_numbers()
  if topics == 0 or call('EXISTS', P .. ':t') == 1 then return end
  local known = call('HGETALL', P .. ':T')
  for i = 1, #known, 2 do
    call('HSET', P .. ':t', known[i + 1], known[i])
    -- Its mark is lost, too: rest-topics.lua puts it at rest again.
    call('ZADD', P .. ':u', 0, known[i])
  end
end

local function topic_number_made(name)
  local no = topic_number(name)
  if no and not at_rest[name] then return no end
  if not no then
    remake_lost_numbers()
    no = topic_number(name)
  end
  if not no then
    no = tonumber(call('ZRANGEBYSCORE', P .. ':u', -1, -1, 'LIMIT', 0, 1)[1])
    if not no then
      topics = topics + 1
      no = topics
      call('HSET', P .. ':n', 'topics', no)
    end
    call('HSET', P .. ':T', no, name)
  end
  call('HSET', P .. ':t', name, no)
  call('ZADD', P .. ':u', 0, no)
  topic_numbers[name], at_rest[name] = no, nil
  return no
end

-- '?', never a topic, for a number without a name: its jobs are held as those of an unknown topic.
local topic_names = {}
local function topic_name(no)
  local name = topic_names[no]
  if name == nil then
    name = call('HGET', P .. ':T', no) or '?'
    topic_names[no] = name
  end
  return name
end

-- Numbers of the topics in use; with `until_score` also of those at rest.
local function numbers_in_use(until_score)
  local numbers = call('ZRANGEBYSCORE', P .. ':u', 0, until_score or 0)
  for i, no in ipairs(numbers) do numbers[i] = tonumber(no) end
  return numbers
end
