-- dead: finds dead letters by topic, deadAt and id, at most `max`.
-- filter: topic ('' = all), since, until (ms), below (deaths with lower numbers; huge = any), ids (tag+id;
-- nil = all)
local function dead_keys(filter)
  if filter.topic == '' then return P .. ':x', nil end
  local no = topic_number(filter.topic)
  return no and P .. ':x:' .. no or nil, no
end

-- nil: not a valid member
local function key_of_member(member, no)
  if no and is_entry(member) then return no, (tid_of(member)) end
  if no or #member < 12 then return nil end
  return struct.unpack('>I3', member, 8), member:sub(11)
end

-- only in scripts that write
local function find_dead_at(set, no, member)
  local its, tid = key_of_member(member, no)
  if its then return find_at(set, member, its, tid) end
  quarantine_member(no, '', set, member)
  return nil
end

-- The matching dead letters of filter.ids, oldest death first.
local function dead_of_ids(filter, no)
  local found, seen = {}, {}
  for _, tid in ipairs(filter.ids) do
    local job = not seen[tid] and find_in(no, tid)
    seen[tid] = true
    local is_dead = job and job.state == 3 and job.dead_at >= filter.since and job.dead_at < filter.upto
    if is_dead and job.token < filter.below then found[#found + 1] = job end
  end
  table.sort(found, function(a, b)
    if a.dead_at ~= b.dead_at then return a.dead_at < b.dead_at end
    return a.version < b.version
  end)
  return found
end

-- Whether a member may be one of a death below filter.below. A version is below the death; the caller
-- quarantines members and records that are not readable.
local function may_fit(no, member, below)
  if below == math.huge or #member < 7 then return true end
  if struct.unpack('>I7', member) >= below then return false end
  local its, tid = key_of_member(member, no)
  local more = its and call('HGET', P .. ':m', field_of(its, tid))
  return not more or #more ~= 28 or struct.unpack('>I7', more, 5) < below
end

-- Members that may fit, oldest death first, at most max + 1. Passes over at most 10,000 newer ones (some ms):
-- a call makes no more, and they sort last unless the clock of Redis went back.
local function members_until(key, no, filter, max)
  local fitting, at = {}, 0
  repeat
    local page = call('ZRANGEBYSCORE', key, digits(filter.since), '(' .. digits(filter.upto), 'LIMIT', at, max + 1)
    for _, member in ipairs(page) do
      if may_fit(no, member, filter.below) then fitting[#fitting + 1] = member end
    end
    at = at + #page
  until #page <= max or #fitting > max or at > 10000 + max
  return fitting
end

-- Oldest first, at most max, and whether more exist. Quarantines members without their job.
local function oldest_dead(filter, max)
  local key, no = dead_keys(filter)
  if not key then return {}, false end
  local found = {}
  if filter.ids then
    local all = dead_of_ids(filter, no)
    for i = 1, math.min(#all, max) do found[i] = all[i] end
    return found, #all > max
  end
  local members = members_until(key, no, filter, max)
  for i = 1, math.min(#members, max) do found[#found + 1] = find_dead_at(key:sub(#P + 1), no, members[i]) end
  return found, #members > max
end

-- Reads the filter from ARGV[at] on: topic, since, until, below (negative = any), number of ids, ids
local function read_filter(at)
  local filter = { topic = ARGV[at], since = tonumber(ARGV[at + 1]), upto = tonumber(ARGV[at + 2]) }
  local below, count = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  filter.below = below < 0 and math.huge or below
  if count >= 0 then
    filter.ids = {}
    for i = 1, count do filter.ids[i] = ARGV[at + 4 + i] end
  end
  return filter
end
