-- list: rejects a caller whose shard list is older than the bucket's. A caller with a newer list raises the
-- number where it may store: after it looked here, no older list can place a job in this bucket.
local list, its_list = tonumber(head[2] or '0'), tonumber(ARGV[2])
if list > its_list then return redis.error_reply('DQSTALELIST jobs are placed by a newer list of shards') end
