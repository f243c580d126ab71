#!lua flags=allow-oom
-- promote: moves due jobs to the ready queues, earliest first, equal ones by version.
-- @keys P
-- @args max
-- @returns moved; ms until the next delayed job is due (0 = more are due now, -1 = none is delayed)
-- @writes per piece: ready sets, delayed sets, heads
-- @include clock, numbers, topics, jobs, queues, quarantine
-- Why: reads and writes no record, because the members hold all that a queue needs. Jobs of several topics
--   usually alternate, so a piece moves the first jobs of several topics together, up to the first job of
--   another topic. This costs 2 µs per job with four topics, 14 with a thousand. Runs of one topic, mostly
--   one job long, cost 16 and 11.
local max = tonumber(ARGV[4])
-- Topics of the next piece: doubled if another topic ended the last one, halved if a queue exceeded its
-- share.
local together, together_max = 16, 128

-- An unreadable head may be any topic's: quarantines it and renews the heads of all topics.
local function renew_heads(head)
  quarantine_member(nil, '', ':d', head)
  for _, no in ipairs(numbers_in_use()) do
    local first = call('ZRANGE', P .. ':d:' .. no, 0, 0, 'WITHSCORES')
    if first[1] then call('ZADD', P .. ':d', first[2], struct.pack('>I7I3', version_of(first[1]), no)) end
  end
end

-- Whether (due, version) comes no later than a place.
local function is_within(due, version, place) return due < place.due or (due == place.due and version <= place.version) end

-- The topics with the earliest jobs, and the place of the first job of any other topic.
local function first_topics(heads, most)
  local found, seen = {}, {}
  for i = 1, #heads, 2 do
    local head, due = heads[i], tonumber(heads[i + 1])
    if due > now then break end
    local no = #head == 10 and struct.unpack('>I3', head, 8)
    -- A damaged head is handled when it is the first.
    if not no or seen[no] then return found, { due = due, version = math.huge } end
    if #found == most then return found, { due = due, version = version_of(head) } end
    found[#found + 1] = { no = no, head = head, set = ':d:' .. no }
    seen[no] = true
  end
  return found, { due = now, version = math.huge }
end

-- Fetches the first jobs of each topic, an equal share of `most`. Beyond a full share a queue is unknown, so
-- its last fetched job becomes the place.
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

-- Adds the ready queues of a topic's jobs. Returns how many members leave the delayed set, and how many were
-- invalid.
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
      quarantine_parts(topic_name(topic.no), '', place_part(topic.set, member, due))
      none = none + 1
    end
  end
  return count, none
end

-- Moves one piece. Returns how many jobs moved, and how many members were invalid.
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
  -- The queue with the earliest job gets the first turn.
  table.sort(queues, function(a, b) return a.due < b.due or (a.due == b.due and a.version < b.version) end)
  for _, queue in ipairs(queues) do put_all_ready(queue.prio, queue.no, queue.members) end
  local left, firsts = {}, {}
  for i, topic in ipairs(found) do
    left[i] = topic.head
    -- With count 0 the call would remove all (0 … -1): a damaged head must not cost its topic every delayed
    -- job.
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

-- Each piece moves a job or repairs a head. `pieces` bounds the loop even if one did neither: Redis must
-- never hang.
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
