-- overdue: the jobs that have been due the longest, one of each topic, for counts and countsOf, whose first
-- argument is the most of them.
-- Invariant: the list holds few heads, in order. To sort all would take seconds for 100,000 topics.
local heads_max = tonumber(ARGV[4])
local heads, due_of = {}, {}

-- The first member of a queue, if it is due. Returns whether it is readable.
local function note_head(key, no)
  local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if not head[1] or not is_entry(head[1]) then return false end
  local due, last = tonumber(head[2]), heads[heads_max]
  if due > now then return true end
  if due_of[no] and due_of[no] <= due or last and last.due <= due then return true end
  local at = due_of[no] and 1 or #heads + 1
  while heads[at] and heads[at].no ~= no do at = at + 1 end
  if at > heads_max then
    at = heads_max
    due_of[last.no] = nil
  end
  while at > 1 and heads[at - 1].due > due do
    heads[at] = heads[at - 1]
    at = at - 1
  end
  heads[at], due_of[no] = { due = due, no = no, entry = head[1] }, due
  return true
end

local function oldest_heads()
  local oldest = {}
  for i, head in ipairs(heads) do oldest[i] = { head.due, topic_name(head.no), (tid_of(head.entry)) } end
  return oldest
end

-- Leases are bounded by the slots of all notifiers and by pullLeasesMax.
local function leases_by_topic()
  local reserved = {}
  for _, set in ipairs({ ':l', ':k' }) do
    local at = 0
    repeat
      local piece = call('ZRANGE', P .. set, at, at + 999)
      for _, member in ipairs(piece) do
        if #member >= 35 then
          local no = struct.unpack('>I3', member, 31)
          reserved[no] = (reserved[no] or 0) + 1
        end
      end
      at = at + #piece
    until #piece == 0
  end
  return reserved
end
