-- clock: the storage clock, read once. TIME goes on during a script in Redis 7.0: a second reading would be another time.
-- us: epoch µs; now: epoch ms.
local time = call('TIME')
local us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now = math.floor(us / 1000)
