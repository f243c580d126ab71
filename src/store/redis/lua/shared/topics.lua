-- topics: numbers for names, per bucket, from 1. User text is a value here and nowhere part of a key. Numbers stay: they lie
-- in the fields of jobs.
local topic_numbers = {}
local function topic_number(name)
  local no = topic_numbers[name]
  if no == nil then
    no = tonumber(call('HGET', P .. ':t', name) or false)
    topic_numbers[name] = no
  end
  return no
end

local topics = tonumber(head[6] or '0')
local function topic_number_made(name)
  local no = topic_number(name)
  if no == nil then
    topics = topics + 1
    no = topics
    call('HSET', P .. ':n', 'topics', no)
    call('HSET', P .. ':t', name, no)
    call('HSET', P .. ':T', no, name)
    topic_numbers[name] = no
  end
  return no
end

local topic_names = {}
local function topic_name(no)
  local name = topic_names[no]
  if name == nil then
    name = call('HGET', P .. ':T', no)
    topic_names[no] = name
  end
  return name
end
