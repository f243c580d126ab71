-- frame: what every script begins with. P is the bucket's key prefix; all other keys are derived from it, in its hash slot. Why
-- KEYS[2] is declared and not read: keys.ts.
-- ARGV[1] is the marker that the caller knows this bucket by, ARGV[2] the number of the shard list it placed its jobs by,
-- ARGV[3] the caller's switches; the operation's own arguments follow.
-- Why: a server that was emptied, restored or swapped answers `no_marker` or `foreign` instead of being worked on.
local call = redis.call
local P = KEYS[1]
local switches = ARGV[3]
local head = call('HMGET', P .. ':n', 'marker', 'list', 'seq', 'turn', 'wheel', 'topics')
if head[1] ~= ARGV[1] then
  return redis.error_reply(head[1] and 'DQFOREIGN this bucket belongs to another store' or 'DQNOMARKER this bucket has no marker')
end
