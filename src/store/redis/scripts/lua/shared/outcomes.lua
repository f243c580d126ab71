-- outcomes: pushes the outcome jobs of ended ones. A call with any has more arguments: one text with all of
-- them, then each body that lies apart, in their order. Per outcome job: number of its lease in the call (2,
-- from 1), length (1) and topic, length (2) and tag+id, flags as in push, delay (ms, 6), length (2) and tail.
-- The caller has made an id whose home is this bucket, so the number of its list counts, as in a push.
-- Invariant: an id that is live, dead or in the history is of an earlier run of the same end, and stays.
local outcomes = {}

if ARGV[5] then
  local list, its_list = tonumber(head[2] or '0'), tonumber(ARGV[2])
  if list > its_list then return redis.error_reply('DQSTALELIST jobs are placed by a newer list of shards') end
  if list < its_list then call('HSET', P .. ':n', 'list', ARGV[2]) end
  local text, at, apart = ARGV[5], 1, 5
  while at <= #text do
    local one, number = {}, 0
    number, one.topic, one.tid, one.flags, one.delay, one.tail, at = struct.unpack('>I2 Bc0 I2c0 B I6 I2c0', text, at)
    if one.flags % 64 >= 32 then
      apart = apart + 1
      one.body = ARGV[apart]
    end
    outcomes[number] = one
  end
end

-- The outcome job of lease number i; nil: it has none, or an earlier run has pushed it.
local function push_outcome(i)
  local one = outcomes[i]
  if not one then return nil end
  local no = topic_number_made(one.topic)
  local f = field_of(no, one.tid)
  if call('HEXISTS', P .. ':j', f) == 1 or call('HEXISTS', P .. ':h', f) == 1 then return nil end
  local version, due = draw(), one.delay == 0 and now or now + one.delay + 1
  local job = { no = no, tid = one.tid, due = due, version = version, origin = version, accepted = now,
    flags = one.flags, prio = one.flags % 4, tail = one.tail, state = 0, failures = 0, strikes = 0 }
  -- As in push: a lost record may have left these.
  call('HDEL', P .. ':m', f)
  call('HDEL', P .. ':p', f)
  write_record(job)
  if one.body then call('HSET', P .. ':b', f, one.body) end
  put_waiting(job)
  return job
end
