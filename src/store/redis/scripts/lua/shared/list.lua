-- list: refuses a caller that has placed its jobs by an older list of shards than the bucket has heard of. A caller with a
-- newer one is where the bucket hears of it: whoever has looked here by it has seen all that an older list will ever put here.
local list, its_list = tonumber(head[2] or '0'), tonumber(ARGV[2])
if list > its_list then return redis.error_reply('DQSTALELIST jobs are placed by a newer list of shards') end
