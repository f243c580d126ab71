-- frame: begins every script. P is the bucket's key prefix; all other keys derive from it, in its hash slot.
-- keys.ts says why KEYS[2] is declared and never read. ARGV[1] is the caller's marker of this bucket, ARGV[2]
-- the number of its shard list, ARGV[3] its switches: `h` if it keeps a history; if it writes a journal, its
-- name as a writer follows, and the highest number of its own changes that this bucket returned to it. The
-- operation's own arguments follow.
-- A bucket that has lost changes has a note (healing.lua), until the journal has put them back.
-- Why: an emptied, restored or replaced server answers DQNOMARKER or DQFOREIGN, and no script changes it.
local call = redis.call
local P = KEYS[1]
local switches = ARGV[3]
-- nil: no journal is written
local writer, known = switches:match(' (%S+) (%d+)$')
local head = call('HMGET', P .. ':n', 'marker', 'list', 'seq', 'turn', 'wheel', 'topics', 'heal', 'w' .. (writer or ''), 'ahead', 'moving')
if head[1] ~= ARGV[1] then
  return redis.error_reply(head[1] and 'DQFOREIGN this bucket belongs to another store' or 'DQNOMARKER this bucket has no marker')
end

-- The open and prepared moves from a jobs.db into this bucket (moving.lua), between blanks; nil: none.
local moving = head[10] and (' ' .. head[10] .. ' ') or nil

-- The note: all changes with numbers above `from` may be lost; id, drawn when it was made; phase (`ends`,
-- then `jobs`). nil: none. After the healing its id alone is kept (healed): a number known from before it
-- shows no further loss.
local note, healed = nil, 0
if head[7] then
  local from, id, phase = head[7]:match('^(%d+) (%d+) (%a+)$')
  if from then note = { from = tonumber(from), id = tonumber(id), phase = phase }
  else healed = tonumber(head[7]) end
end
-- Whether the bucket has lost a change of this writer that no note covers.
local watermark = tonumber(head[8] or '0')
local went_back = writer and watermark < tonumber(known) and tonumber(known) > healed
  and (not note or tonumber(known) > note.id or watermark < note.from)
