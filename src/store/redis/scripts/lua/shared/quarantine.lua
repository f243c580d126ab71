-- quarantine: moves unreadable records and set members without their job, unchanged, to :q, where fsck names
-- and health counts them (layout.md). Nothing brings them back.
-- Why: at the head of a queue every later call would meet them again, and the bucket would stand still.
local function part(name, bytes) return name .. struct.pack('>I4', #bytes) .. bytes end

local function quarantine_parts(name, tid, parts)
  call('HSET', P .. ':q', struct.pack('>I7', draw()), part('t', name) .. part('i', tid) .. part('w', digits(now)) .. parts)
end

-- set: the set's key without P
local function place_part(set, member, score) return part('s', set) .. part('e', member) .. part('c', score) end

-- A dead letter is in three sets. Its member in one gives the members in the others, except the priority.
local function leave_dead(set, member)
  if set == ':x' and #member > 11 then
    local no, id = struct.unpack('>I3', member, 8), member:sub(12)
    for prio = 0, 2 do
      local entry = member:sub(1, 7) .. string.char(prio * 2 + member:byte(11) % 2) .. id
      call('ZREM', P .. ':x:' .. no, entry)
      call('ZREM', P .. ':y:' .. no, entry)
    end
  elseif set:find('^:x:') and is_entry(member) then
    local no = tonumber(set:sub(4))
    call('ZREM', P .. ':x', member:sub(1, 7) .. field_of(no, (tid_of(member))))
    call('ZREM', P .. ':y:' .. no, member)
  end
end

-- Removes a member from a set, and from the ring or the heads that refer to it.
local function leave_set(set, member)
  call('ZREM', P .. set, member)
  leave_dead(set, member)
  local prio, no = set:match('^:r:(%d):(%d+)$')
  if prio then
    if call('EXISTS', P .. set) == 0 then call('ZREM', P .. ':a:' .. prio, no) end
    return
  end
  no = tonumber(set:match('^:d:(%d+)$') or '')
  if no and call('ZREM', P .. ':d', struct.pack('>I7I3', version_of(member), no)) == 1 then
    local first = call('ZRANGE', P .. set, 0, 0, 'WITHSCORES')
    if first[1] then call('ZADD', P .. ':d', first[2], struct.pack('>I7I3', version_of(first[1]), no)) end
  end
end

-- Quarantines a member without a job.
local function quarantine_member(no, tid, set, member)
  local score = call('ZSCORE', P .. set, member)
  if not score then return end
  quarantine_parts(no and topic_name(no) or '?', tid, place_part(set, member, score))
  leave_set(set, member)
end

-- Quarantines all records of a job, and the set member that led to it. Its other members follow when a script
-- meets them.
function quarantine_job(no, tid, set, member)
  local f = field_of(no, tid)
  local parts, names = '', {}
  for _, name in ipairs({ 'j', 'm', 'b', 'p' }) do
    local row = call('HGET', P .. ':' .. name, f)
    if row then
      parts = parts .. part(name, row)
      names[#names + 1] = name
    end
  end
  local score = set and call('ZSCORE', P .. set, member)
  if score then parts = parts .. place_part(set, member, score) end
  quarantine_parts(topic_name(no), tid, parts)
  for _, name in ipairs(names) do call('HDEL', P .. ':' .. name, f) end
  if score then leave_set(set, member) end
end

-- The alert of a member of an alert set, if is_right accepts it; else nil, and the member and an unreadable
-- record are quarantined.
local function find_alert_at(set, member, version, is_right)
  local alert = find_alert(version)
  if alert and is_right(alert) then return alert end
  local score = call('ZSCORE', P .. set, member)
  local record = not alert and call('HGET', P .. ':o', version_key(version))
  local tid = alert and alert.tid or ''
  quarantine_parts(alert and topic_name(alert.no) or '?', tid, place_part(set, member, score) .. (record and part('o', record) or ''))
  if record then
    call('HDEL', P .. ':o', version_key(version))
    call('ZREM', P .. ':oa', version_key(version))
  end
  call('ZREM', P .. set, member)
  return nil
end

-- The job of a set member, if it belongs there; else nil, and the member is quarantined.
local function find_at(set, member, no, tid)
  local job, is_torn = find_in(no, tid)
  if not job then
    -- With a history entry under the field, the rows there belong to the ended job.
    if is_torn or call('HEXISTS', P .. ':h', field_of(no, tid)) == 0 then
      quarantine_job(no, tid, set, member)
    else
      quarantine_member(no, tid, set, member)
    end
    return nil
  end
  local wanted
  if set == ':l' or set == ':k' then wanted = job.state == 2 and lease_set(job) == set and lease_of(job)
  elseif set == ':x' then wanted = job.state == 3 and struct.pack('>I7', job.version) .. field_of(no, tid)
  else wanted = (job.state == 3) == (set:find('^:[xy]') ~= nil) and job.state ~= 2 and entry_of(job) end
  if wanted == member then return job end
  quarantine_member(no, tid, set, member)
  return nil
end

local function find_at_entry(set, no, member)
  if is_entry(member) then return find_at(set, member, no, (tid_of(member))) end
  quarantine_member(no, '', set, member)
  return nil
end

local function find_at_lease(set, member)
  if not is_lease(member) then
    quarantine_member(nil, '', set, member)
    return nil
  end
  local lease = read_lease(member)
  return find_at(set, member, lease.no, lease.tid)
end
