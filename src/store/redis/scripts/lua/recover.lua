#!lua flags=allow-oom
-- recover: takes back leases that ran out, the earliest end first, equal ones by token.
-- @keys P
-- @args max; an absence that counts as one, and how long nothing is taken back after it (ms)
-- @returns returned, 1 when more have run out, topic and tag+id of each job that was buried as poison
-- @writes when it was asked and until when nothing is taken back; per lease: the lease, then what has happened to the job, its place, an alert
-- @include clock, numbers, topics, jobs, queues, alerts, moves, aside, strikes
-- Why: while nobody was served nobody could settle; a call that was sent long before is run before theirs when the server goes on.
local max, away_ms, hold_ms = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local last = call('HMGET', P .. ':n', 'recover-asked', 'recover-held')
local held = tonumber(last[2] or '0')
if not last[1] or now - tonumber(last[1]) > away_ms then held = now + hold_ms end
-- A clock that was set back makes it no longer.
held = math.min(held, now + hold_ms)
call('HSET', P .. ':n', 'recover-asked', digits(now), 'recover-held', digits(held))
if now < held then return { 0, 0, {} } end
return strike(call('ZRANGEBYSCORE', P .. ':l', '-inf', digits(now), 'LIMIT', 0, max + 1), max)
