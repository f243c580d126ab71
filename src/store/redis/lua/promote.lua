#!lua flags=allow-oom
-- promote: moves delayed jobs that are due to the ready queues, earliest first, equal ones by version.
-- @keys P
-- @args max
-- @returns moved; ms until the next delayed job is due (0 = more are due now, -1 = none is delayed)
-- @writes per topic: its jobs enter the ready sets, leave the delayed ones, its head is renewed
-- @include clock, numbers, topics, jobs, queues, aside
-- Why: no record is read or written: the members say all that a queue asks. Topics are taken in runs: all of one that come
--   before the head of the next, so a lone topic moves in one piece.
local max = tonumber(ARGV[4])

-- What is among the heads and can be none may have been any topic's: each is asked anew for its own.
local function renew_heads(head)
  set_member_aside(nil, '', ':d', head)
  for _, no in ipairs(numbers_in_use()) do
    local first = call('ZRANGE', P .. ':d:' .. no, 0, 0, 'WITHSCORES')
    if first[1] then call('ZADD', P .. ':d', first[2], struct.pack('>I7I3', version_of(first[1]), no)) end
  end
end

-- Moves the first jobs of the topic that has the earliest of all; answers how many, and how many members were none.
local function move_run(heads, most)
  if #heads[1] ~= 10 then
    renew_heads(heads[1])
    return 0, 1
  end
  local _, no = struct.unpack('>I7I3', heads[1])
  local next_due, next_version = tonumber(heads[4] or 'inf') or math.huge, heads[3] and version_of(heads[3])
  local key = P .. ':d:' .. no
  local rows = call('ZRANGEBYSCORE', key, '-inf', digits(math.min(now, next_due)), 'WITHSCORES', 'LIMIT', 0, most)
  local ready = { [0] = {}, {}, {} }
  local count, none = 0, 0
  for i = 1, #rows, 2 do
    if tonumber(rows[i + 1]) == next_due and version_of(rows[i]) > next_version then break end
    if is_entry(rows[i]) then
      local _, prio = tid_of(rows[i])
      local members = ready[prio]
      members[#members + 1] = rows[i + 1]
      members[#members + 1] = rows[i]
    else
      keep_aside(topic_name(no), '', place_part(':d:' .. no, rows[i], rows[i + 1]))
      none = none + 1
    end
    count = count + 1
  end
  for prio = 0, 2 do
    if ready[prio][1] then put_all_ready(prio, no, ready[prio]) end
  end
  -- Of none it would remove all (0 … -1): a head that somebody broke must not cost its topic every delayed job.
  if count > 0 then call('ZREMRANGEBYRANK', key, 0, count - 1) end
  call('ZREM', P .. ':d', heads[1])
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[1] then call('ZADD', P .. ':d', first[2], struct.pack('>I7I3', version_of(first[1]), no)) end
  return count - none, none
end

local moved, asides = 0, 0
local heads = call('ZRANGE', P .. ':d', 0, 1, 'WITHSCORES')
while moved + asides < max and heads[1] and tonumber(heads[2]) <= now do
  local jobs, none = move_run(heads, max - moved - asides)
  moved, asides = moved + jobs, asides + none
  heads = call('ZRANGE', P .. ':d', 0, 1, 'WITHSCORES')
end
if moved + asides > 0 then finish() end
return { moved, heads[1] and math.max(0, tonumber(heads[2]) - now) or -1 }
