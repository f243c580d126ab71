#!lua flags=allow-oom
-- promote: moves delayed jobs that are due to the ready queues, earliest first, equal ones by version.
-- @keys P
-- @args max
-- @returns moved; ms until the next delayed job is due (0 = more are due now, -1 = none is delayed)
-- @writes per piece: its jobs enter the ready sets, leave the delayed ones, the heads are renewed
-- @include clock, numbers, topics, jobs, queues, aside
-- Why: no record is read or written: the members say all that a queue asks. Jobs of several topics mostly come in turn, so pieces of
--   the queues of the first topics are moved together, as far as is known that no other job comes between: of four topics each job
--   takes 2 µs, of a thousand 14; in runs of one topic, which were of one job each, it took 16 and 11.
local max = tonumber(ARGV[4])
-- Topics of the next piece: more where the topics after them were its end, fewer where a queue was longer than its share.
local together, together_max = 16, 128

-- What is among the heads and can be none may have been any topic's: each is asked anew for its own.
local function renew_heads(head)
  set_member_aside(nil, '', ':d', head)
  for _, no in ipairs(numbers_in_use()) do
    local first = call('ZRANGE', P .. ':d:' .. no, 0, 0, 'WITHSCORES')
    if first[1] then call('ZADD', P .. ':d', first[2], struct.pack('>I7I3', version_of(first[1]), no)) end
  end
end

-- Whether one that is due then, of that version, comes no later than a place.
local function is_within(due, version, place) return due < place.due or (due == place.due and version <= place.version) end

-- Topics with the earliest of all, and the place up to which nobody else's jobs come between theirs.
local function first_topics(heads, most)
  local found, seen = {}, {}
  for i = 1, #heads, 2 do
    local head, due = heads[i], tonumber(heads[i + 1])
    if due > now then break end
    local no = #head == 10 and struct.unpack('>I3', head, 8)
    -- A head that somebody broke is looked at when it is the first.
    if not no or seen[no] then return found, { due = due, version = math.huge } end
    if #found == most then return found, { due = due, version = version_of(head) } end
    found[#found + 1] = { no = no, head = head, set = ':d:' .. no }
    seen[no] = true
  end
  return found, { due = now, version = math.huge }
end

-- Fetches the first of each, no more than all may move together. Of one that may be longer no more is known than that: its last one
-- is the place then.
local function fetch_shares(found, place, most)
  local share = math.floor(most / #found)
  local is_longer = false
  for _, topic in ipairs(found) do
    local rows = call('ZRANGEBYSCORE', P .. topic.set, '-inf', digits(math.ceil(place.due)), 'WITHSCORES', 'LIMIT', 0, share)
    topic.rows = rows
    if #rows == 2 * share then
      local entry, due = rows[#rows - 1], tonumber(rows[#rows])
      local last = { due = due, version = is_entry(entry) and version_of(entry) or math.huge }
      if is_within(last.due, last.version, place) then place, is_longer = last, true end
    end
  end
  together = is_longer and math.max(1, math.floor(together / 2)) or math.min(together_max, together * 2)
  return place
end

-- Adds the queues that the jobs of a piece go to. Answers how many members the delayed set loses, and how many of them were no jobs.
local function sort_out(topic, place, queues)
  local queue_of, count, none = {}, 0, 0
  for i = 1, #topic.rows, 2 do
    local member, due = topic.rows[i], topic.rows[i + 1]
    local version = version_of(member)
    if not is_within(tonumber(due), version, place) then break end
    count = count + 1
    if is_entry(member) then
      local _, prio = tid_of(member)
      local queue = queue_of[prio]
      if not queue then
        queue = { prio = prio, no = topic.no, due = tonumber(due), version = version, members = {} }
        queue_of[prio], queues[#queues + 1] = queue, queue
      end
      local n = #queue.members
      queue.members[n + 1], queue.members[n + 2] = due, member
    else
      keep_aside(topic_name(topic.no), '', place_part(topic.set, member, due))
      none = none + 1
    end
  end
  return count, none
end

-- Moves the first jobs of all, of several topics at once; answers how many, and how many members were none.
local function move_piece(heads, most)
  if #heads[1] ~= 10 then
    renew_heads(heads[1])
    return 0, 1
  end
  local found, place = first_topics(heads, math.min(together, most))
  place = fetch_shares(found, place, most)
  local queues, moved, asides = {}, 0, 0
  for _, topic in ipairs(found) do
    local none
    topic.count, none = sort_out(topic, place, queues)
    moved, asides = moved + topic.count - none, asides + none
  end
  -- Who comes first has the turn before the others.
  table.sort(queues, function(a, b) return a.due < b.due or (a.due == b.due and a.version < b.version) end)
  for _, queue in ipairs(queues) do put_all_ready(queue.prio, queue.no, queue.members) end
  local left, firsts = {}, {}
  for i, topic in ipairs(found) do
    left[i] = topic.head
    -- Of none it would remove all (0 … -1): a head that somebody broke must not cost its topic every delayed job.
    if topic.count > 0 then call('ZREMRANGEBYRANK', P .. topic.set, 0, topic.count - 1) end
    local first = call('ZRANGE', P .. topic.set, 0, 0, 'WITHSCORES')
    if first[1] then
      local n = #firsts
      firsts[n + 1], firsts[n + 2] = first[2], struct.pack('>I7I3', version_of(first[1]), topic.no)
    end
  end
  call('ZREM', P .. ':d', unpack(left))
  if firsts[1] then call('ZADD', P .. ':d', unpack(firsts)) end
  return moved, asides
end

-- Each piece moves something or puts a head right; were there one that did neither, the caller would ask for ever, and not Redis.
local moved, asides, pieces = 0, 0, 0
local function look() return call('ZRANGE', P .. ':d', 0, together, 'WITHSCORES') end
local heads = look()
while moved + asides < max and pieces < max and heads[1] and tonumber(heads[2]) <= now do
  local jobs, none = move_piece(heads, max - moved - asides)
  moved, asides, pieces = moved + jobs, asides + none, pieces + 1
  heads = look()
end
if moved + asides > 0 then finish() end
return { moved, heads[1] and math.max(0, tonumber(heads[2]) - now) or -1 }
