-- frame: begins every script. P is the bucket's key prefix; all other keys derive from it, in its hash slot.
-- keys.ts says why KEYS[2] is declared and never read. ARGV[1] is the caller's marker of this bucket, ARGV[2]
-- the number of its shard list, ARGV[3] its switches: `h` if it keeps a history; after a space its name as a
-- writer of the journal, if it writes one. The operation's own arguments follow.
-- Why: an emptied, restored or replaced server answers DQNOMARKER or DQFOREIGN, and no script changes it.
local call = redis.call
local P = KEYS[1]
local switches = ARGV[3]
-- nil: no journal is written
local writer = switches:match(' (%S+)')
local head = call('HMGET', P .. ':n', 'marker', 'list', 'seq', 'turn', 'wheel', 'topics')
if head[1] ~= ARGV[1] then
  return redis.error_reply(head[1] and 'DQFOREIGN this bucket belongs to another store' or 'DQNOMARKER this bucket has no marker')
end
