-- wheel: wheel.ts in Lua, over the stored rings. A plan for fewer jobs is a prefix of the plan for more.
-- rings[prio]: the topics with ready jobs, by turn: { no, key }; entry_at(ring, i) returns nil after the last
-- one. A plan reads only as much of the rings as it needs.
local tickets = { [0] = 0, 1, 0, 2, 0, 1, 0, 1, 0, 2 }

local function count_of(entry)
  if not entry.count then entry.count = call('ZCARD', entry.key) end
  return entry.count
end

-- Returns deals (ring entries, one per job), the wheel's next position, per entry the number taken, the
-- entries in the order of their last serving, and whether jobs with capacity remain.
local function deal(rings, entry_at, position, max, room_of)
  local taken_of_topic, taken, served = {}, {}, {}
  local again, heads = {}, {}
  for prio = 0, 2 do again[prio], heads[prio] = {}, 1 end
  -- Capacity never grows during a plan: a topic without any drops out and keeps its turn. The ring comes
  -- once, then the served topics in the order of their serving.
  local function next_of(prio)
    while true do
      local ring, head = rings[prio], heads[prio]
      local entry = entry_at(ring, head)
      if not entry then entry = again[prio][head - #ring.entries] end
      if not entry or (taken_of_topic[entry.no] or 0) < room_of(entry) then return entry end
      heads[prio] = head + 1
    end
  end
  local deals, count = {}, 0
  while count < max do
    local entry = next_of(tickets[(position + count) % 10]) or next_of(0) or next_of(1) or next_of(2)
    if not entry then break end
    local prio, its = entry.prio, (taken[entry] or 0) + 1
    heads[prio] = heads[prio] + 1
    taken_of_topic[entry.no] = (taken_of_topic[entry.no] or 0) + 1
    taken[entry] = its
    count = count + 1
    deals[count], served[entry] = entry, count
    if its < count_of(entry) then again[prio][#again[prio] + 1] = entry end
  end
  local order = {}
  for entry in pairs(served) do order[#order + 1] = entry end
  table.sort(order, function(a, b) return served[a] < served[b] end)
  local more = next_of(0) or next_of(1) or next_of(2)
  return { deals = deals, position = (position + #deals) % 10, taken = taken, order = order, more = more ~= nil }
end
