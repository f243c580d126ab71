-- numbers: draws versions and tokens. Each is the clock in µs. If the clock is behind the last one, it is the
-- last one + 1; if by 100 ms or more, the last one and a distance (below). They have 51 bits: a double holds
-- 53; only %.0f prints them whole. Each bucket draws its own remainder modulo the number of buckets, because
-- an alert is named by its version alone.
-- Invariants: numbers rise. None is given twice, also by a bucket that lost its last writes, and goes on from
-- an older number. They do not run away from the clock: a draw skips only after a step back or a loss. No
-- draw waits.
-- Why: the clock has passed the lost numbers, unless it was set back. If it is behind the last number, a draw
-- skips 1 to 18 s, beyond what a server loses in a second. Later ones rise half as fast as the clock, which
-- catches up. So after a further loss they have passed the lost ones too, if the server was down for 2 µs
-- times the number of buckets per lost number. The clock may have been set back among the lost writes, so the
-- distance is random. Then a job gets one of its own lost numbers with a chance of 1 in 2^24, times the
-- number of buckets.
local function digits(n) return string.format('%.0f', n) end

local bucket, buckets = tonumber(P:match('%d+')), tonumber(head[1]:match('%d+$'))
local seq = tonumber(head[3] or '0')
local drawn = false
-- The clock at the draw of the last number; nil: not read yet; huge: unknown. After a step back a draw skips
-- again.
local drawn_at
-- In `ahead`: the last number that was drawn while the clock was behind, and that clock. A last number
-- without one is from a build that writes none: a skip at each change of the builds would run away from the
-- clock.
local function read_drawn_at()
  local number, at = (head[9] or ''):match('^(%d+) (%d+)$')
  if not at then return math.huge end
  return number == digits(seq) and tonumber(at) or math.max(tonumber(at), us)
end

-- A clock that is behind by less (µs) was not set back, or by less than the time for which a server that lost
-- writes is down.
local behind_max = 100000
local function draw()
  if seq < us then seq = us
  elseif seq - us < behind_max then seq = seq + 1
  else
    drawn_at = drawn_at or read_drawn_at()
    if drawn_at - us < behind_max then seq = seq + math.max(1, math.floor((us - drawn_at) / 2))
    -- Scripts have no other chance than the clock.
    else seq = seq + 1000000 + tonumber(redis.sha1hex(digits(us)):sub(1, 6), 16) end
  end
  if buckets > 1 then seq = seq + (bucket - seq) % buckets end
  drawn, drawn_at = true, us
  return seq
end

-- For an id that lived in another bucket: its versions continue to rise here.
local function rise_above(number)
  if seq < number then seq, drawn_at = number, math.huge end
end

-- A note from before the clock has caught up would hide a later step back.
local function keep_drawn_at()
  if seq - us >= behind_max then call('HSET', P .. ':n', 'ahead', digits(seq) .. ' ' .. digits(us))
  elseif head[9] then call('HDEL', P .. ':n', 'ahead') end
end

-- Called last by every script that may have drawn. The watermark of a writer is the last number given to it:
-- one below a number that it knows shows that the bucket went back.
local function keep_numbers()
  if not drawn then return end
  keep_drawn_at()
  if writer then call('HSET', P .. ':n', 'seq', digits(seq), 'w' .. writer, digits(seq))
  else call('HSET', P .. ':n', 'seq', digits(seq)) end
end

-- A change as the journal names it: number, version, origin (7 bytes each), due (6), failures (2). Draws the
-- number when it is nil. '' without a journal.
local function change_of(job, number)
  if not writer then return '' end
  return struct.pack('>I7I7I7I6I2', number or draw(), job.version, job.origin, job.due, job.failures)
end
