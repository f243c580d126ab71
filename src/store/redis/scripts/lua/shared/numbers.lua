-- numbers: draws versions and tokens, which rise: max(last + 1, clock in µs). A bucket that lost its last
-- writes goes on from an older `last`, but the clock has passed the lost numbers. If it was set back, the
-- last 20 bits of a number are those of half the clock, so that it is a lost one only if both were drawn a
-- multiple of 2.1 s apart, to 2 µs, or to as much as a burst of draws is ahead. Numbers then rise half as
-- fast as the clock, which catches up. They have 51 bits: a double holds 53; only %.0f prints them whole.
-- Each bucket draws its own remainder modulo the number of buckets, because an alert is named by its version
-- alone.
local function digits(n) return string.format('%.0f', n) end

local bucket, buckets = tonumber(P:match('%d+')), tonumber(head[1]:match('%d+$'))
local seq = tonumber(head[3] or '0')
local drawn = false
-- A clock that is behind by less (µs) was not set back, or by less than the time for which a server that lost
-- writes is down.
local behind_max = 100000
local function draw()
  if seq < us then seq = us
  elseif drawn or seq - us < behind_max then seq = seq + 1
  else
    local step = (math.floor(us / 2) - seq - 1) % 1048576
    -- Numbers that many draws at one moment have brought ahead of half the clock wait for it.
    seq = seq + 1 + (step < 1048576 - 1024 * buckets and step or 0)
  end
  if buckets > 1 then seq = seq + (bucket - seq) % buckets end
  drawn = true
  return seq
end

-- For an id that lived in another bucket: its versions continue to rise here.
local function rise_above(number)
  if seq < number then seq = number end
end

-- Called last by every script that may have drawn. The watermark of a writer is the last number given to it:
-- one below a number that it knows shows that the bucket went back.
local function keep_numbers()
  if not drawn then return end
  if writer then call('HSET', P .. ':n', 'seq', digits(seq), 'w' .. writer, digits(seq))
  else call('HSET', P .. ':n', 'seq', digits(seq)) end
end

-- A change as the journal names it: number, version, origin (7 bytes each), due (6), failures (2). Draws the
-- number when it is nil. '' without a journal.
local function change_of(job, number)
  if not writer then return '' end
  return struct.pack('>I7I7I7I6I2', number or draw(), job.version, job.origin, job.due, job.failures)
end
