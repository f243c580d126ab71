-- wheel: wheel.ts in Lua, from the rings as they are stored. A plan for fewer jobs is a prefix of the plan for more.
-- rings[prio]: the topics that have ready jobs, in turn: { no, key }; entry_at(ring, i) answers nil behind the last one.
-- Rings are read as far as a plan needs them.
local tickets = { [0] = 0, 1, 0, 2, 0, 1, 0, 1, 0, 2 }

local function count_of(entry)
  if not entry.count then entry.count = call('ZCARD', entry.key) end
  return entry.count
end

-- Answers deals (entries of the rings, one per job), the position of the wheel, per entry how many were taken, the
-- entries in the order in which they were last served, and whether jobs remain that had room.
local function deal(rings, entry_at, position, max, room_of)
  local taken_of_topic, taken, served = {}, {}, {}
  local again, heads = {}, {}
  for prio = 0, 2 do again[prio], heads[prio] = {}, 1 end
  -- Room never grows during one plan: a topic found without any drops out and keeps its turn. The whole ring comes once, then
  -- the topics that were served, in the order of the serving.
  local function next_of(prio)
    while true do
      local ring, head = rings[prio], heads[prio]
      local entry = entry_at(ring, head)
      if not entry then entry = again[prio][head - #ring.entries] end
      if not entry or (taken_of_topic[entry.no] or 0) < room_of(entry) then return entry end
      heads[prio] = head + 1
    end
  end
  local deals = {}
  while #deals < max do
    local ticket = tickets[(position + #deals) % 10]
    local prio = next_of(ticket) and ticket or next_of(0) and 0 or next_of(1) and 1 or next_of(2) and 2
    if not prio then break end
    local entry = next_of(prio)
    heads[prio] = heads[prio] + 1
    taken_of_topic[entry.no] = (taken_of_topic[entry.no] or 0) + 1
    taken[entry] = (taken[entry] or 0) + 1
    deals[#deals + 1] = entry
    served[entry] = #deals
    if taken[entry] < count_of(entry) then again[prio][#again[prio] + 1] = entry end
  end
  local order = {}
  for entry in pairs(served) do order[#order + 1] = entry end
  table.sort(order, function(a, b) return served[a] < served[b] end)
  local more = next_of(0) or next_of(1) or next_of(2)
  return { deals = deals, position = (position + #deals) % 10, taken = taken, order = order, more = more ~= nil }
end
