-- numbers: draws versions and tokens. Next = max(last + 1, clock in µs), so no number is given twice, even
-- after lost jobs, lost data or a clock set back. They have 51 bits: a double holds them; only %.0f prints
-- them whole. Each bucket draws its own remainder modulo the number of buckets, because an alert is named by
-- its version alone.
local function digits(n) return string.format('%.0f', n) end

local bucket, buckets = tonumber(P:match('%d+')), tonumber(head[1]:match('%d+$'))
local seq = tonumber(head[3] or '0')
local drawn = false
local function draw()
  seq = seq < us and us or seq + 1
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
