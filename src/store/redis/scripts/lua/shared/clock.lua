-- clock: the storage clock, read once. In Redis 7.0 TIME goes on during a script, so a second reading would
-- differ. us: epoch µs; now: epoch ms.
local time = call('TIME')
local us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now = math.floor(us / 1000)
