-- numbers: versions and tokens. Next = max(last + 1, clock in µs), so none is given twice, whatever became of the jobs, the
-- clock or the data. 51 bits: a double holds them; only %.0f prints them whole. Of several buckets each draws numbers of its own
-- remainder: an alert is named by its version alone.
local function digits(n) return string.format('%.0f', n) end

local bucket, buckets = tonumber(P:match('%d+')), tonumber(head[1]:match('%d+$'))
local seq = tonumber(head[3] or '0')
local drawn = false
local function draw()
  seq = math.max(seq + 1, us)
  seq = seq + (bucket - seq) % buckets
  drawn = true
  return seq
end

-- For an id that has lived elsewhere: its numbers go on rising here.
local function rise_above(number)
  if seq < number then seq = number end
end

-- The last thing of a script that may have drawn.
local function keep_numbers()
  if drawn then call('HSET', P .. ':n', 'seq', digits(seq)) end
end
