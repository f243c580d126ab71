#!lua flags=allow-oom
-- recover: recovers expired leases of processes, the earliest end first, equal ones by token, and lists those
--   of poison and of pulled jobs.
-- @keys P
-- @args max; the gap between calls that counts as an outage (ms), the hold after it (ms)
-- @returns returned, 1 when more have expired; topic, tag+id, version and token of each poison job; per
--   expired lease of a pulled job: topic, tag+id, version, token, failures, end and due time (ms), extension
--   block
-- @writes time of this call and end of the hold; ends of pulled leases that are too far ahead; per lease: the
--   lease, then the state record, its set
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, holds, healing, strikes
-- Why: during an outage no notifier could settle. A recover sent before the outage may run first when Redis
--   goes on.
local max, away_ms, hold_ms = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local last = call('HMGET', P .. ':n', 'recover-asked', 'recover-held')
-- While no lease is out, polls do not reach this script: the first lease counts as a call (reserve.lua). A
-- clock that is before the last call was set back: this hides how long an outage was.
local since = now - tonumber(last[1] or '0')
local is_outage = since < 0 or since > away_ms
local held = end_of_hold(not is_outage and last[2] or nil, now, hold_ms)
call('HSET', P .. ':n', 'recover-asked', digits(now), 'recover-held', digits(held))
-- A lease that ends further ahead than any may was taken while the clock was wrong: its time begins now. In
-- pieces, because the reply of one call is bounded; the rest follows with the next call.
local too_far = call('ZRANGEBYSCORE', P .. ':k', '(' .. digits(now + limits.pullLeaseMsMax), '+inf', 'WITHSCORES', 'LIMIT', 0, max)
for i = 1, #too_far, 2 do
  -- Tokens are the clock in µs, or ahead of it. A token that is ahead by all of the lease hides its length,
  -- so it gets the longest: one that is too short would give the job of a working client to another one. It
  -- costs the job of a client that died a wait of that time.
  local length = #too_far[i] >= 7 and tonumber(too_far[i + 1]) - math.floor(struct.unpack('>I7', too_far[i]) / 1000)
  if not length then length = 0
  elseif length < limits.pullLeaseMsMin - behind_max / 1000 then length = limits.pullLeaseMsMax end
  length = math.max(limits.pullLeaseMsMin, math.min(limits.pullLeaseMsMax, length))
  call('ZADD', P .. ':k', digits(now + length), too_far[i])
end

if now < held then return { 0, 0, {}, {} } end

local expired, pulled = call('ZRANGEBYSCORE', P .. ':k', '-inf', digits(now), 'WITHSCORES', 'LIMIT', 0, max + 1), {}
for i = 1, math.min(#expired, 2 * max), 2 do
  local job, n = find_at_lease(':k', expired[i]), #pulled
  if job then
    pulled[n + 1], pulled[n + 2], pulled[n + 3] = topic_name(job.no), job.tid, job.version
    pulled[n + 4], pulled[n + 5], pulled[n + 6] = job.token, job.failures, tonumber(expired[i + 1])
    pulled[n + 7], pulled[n + 8] = job.due, extension_of(job)
  end
end
local answer = strike(call('ZRANGEBYSCORE', P .. ':l', '-inf', digits(now), 'LIMIT', 0, max + 1), max)
if #expired > 2 * max then answer[2] = 1 end
answer[4] = pulled
return answer
