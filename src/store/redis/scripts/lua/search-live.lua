#!lua flags=no-writes,allow-oom
-- search-live: lists live and dead jobs after a place, earliest due first, equal ones by version.
-- @keys P
-- @args topic ('' = all), state (code; '' = any), since, until (ms), place (ms, version), max
-- @returns 1 when more follow; per job: topic, tag+id, state, record, state record
-- @include clock, numbers, topics, jobs, places
-- Why: no set holds all jobs by due time (a third more memory per job), so the script merges the sets of each
--   state and topic, each read from the place on. It visits only topics with such jobs: there may be many
--   others.
local topic, state = ARGV[4], tonumber(ARGV[5] or '')
local since, upto = tonumber(ARGV[6]), tonumber(ARGV[7])
local at, version, most = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local wanted = topic_number(topic)
if topic ~= '' and not wanted then return { 0 } end
if since > at then at, version = since, 0 else version = version + 1 end

-- A source returns rows { due, version, no, tid, state } in order, nil at its end.
local function set_source(key, no, its_state)
  if call('EXISTS', key) == 0 then return nil end
  local rank, rows, next_row, size = rank_of(key, at, version), {}, 1, 4
  return function()
    if not rows[next_row] then
      rows, next_row = call('ZRANGE', key, rank, rank + size - 1, 'WITHSCORES'), 1
      rank, size = rank + size, math.min(2 * size, 128)
    end
    local entry, due = rows[next_row], tonumber(rows[next_row + 1])
    if not entry or due >= upto then return nil end
    next_row = next_row + 2
    local tid = is_entry(entry) and tid_of(entry) or ''
    return { due = due, version = (struct.unpack('>I7', entry)), no = no, tid = tid, state = its_state }
  end
end

local function comes_before(a, b) return a.due < b.due or (a.due == b.due and a.version < b.version) end

-- Leases are sorted by their ends; the slots of all notifiers and pullLeasesMax bound them.
local function lease_source()
  local rows, n = {}, 0
  for _, set in ipairs({ ':l', ':k' }) do
    local first = 0
    repeat
      local piece = call('ZRANGE', P .. set, first, first + 999)
      for _, member in ipairs(piece) do
        local row = is_lease(member) and read_lease(member)
        local behind = row and (row.due > at or (row.due == at and row.version >= version))
        if behind and row.due < upto and (not wanted or row.no == wanted) then
          row.state = 2
          rows[#rows + 1] = row
        end
      end
      first = first + #piece
    until #piece == 0
  end
  table.sort(rows, comes_before)
  return function()
    n = n + 1
    return rows[n]
  end
end

-- Heap of sources by their next rows.
local heap = {}
local function sink(i)
  while true do
    local least = i
    for child = 2 * i, 2 * i + 1 do
      if heap[child] and comes_before(heap[child].row, heap[least].row) then least = child end
    end
    if least == i then return end
    heap[i], heap[least] = heap[least], heap[i]
    i = least
  end
end
local function add(source)
  local row = source and source()
  if not row then return end
  local i = #heap + 1
  heap[i] = { source = source, row = row }
  while i > 1 and comes_before(row, heap[math.floor(i / 2)].row) do
    local parent = math.floor(i / 2)
    heap[i], heap[parent] = heap[parent], heap[i]
    i = parent
  end
end

-- The delayed jobs of a topic follow its head, so those with later heads need no look before their turn.
local heads, next_head, heads_read = {}, 1, 0
local function add_delayed()
  while true do
    if not heads[next_head] then
      heads = call('ZRANGE', P .. ':d', heads_read, heads_read + 99, 'WITHSCORES')
      next_head, heads_read = 1, heads_read + #heads / 2
      if not heads[1] then return end
    end
    local head, due = heads[next_head], tonumber(heads[next_head + 1])
    if due >= upto or (heap[1] and heap[1].row.due < due) then return end
    next_head = next_head + 2
    local no = #head == 10 and struct.unpack('>I3', head, 8)
    if no then add(set_source(P .. ':d:' .. digits(no), no, 0)) end
  end
end

local function numbers_of_dead()
  if call('ZCARD', P .. ':x') >= call('ZCOUNT', P .. ':u', 0, 0) then return numbers_in_use() end
  local numbers, known = {}, {}
  for at_dead = 0, math.huge, 1000 do
    local members = call('ZRANGE', P .. ':x', at_dead, at_dead + 999)
    for _, member in ipairs(members) do
      local no = #member > 10 and struct.unpack('>I3', member, 8)
      if no and not known[no] then
        known[no] = true
        numbers[#numbers + 1] = no
      end
    end
    if #members < 1000 then return numbers end
  end
end

local is_delayed = not state or state == 0
if is_delayed and wanted then add(set_source(P .. ':d:' .. wanted, wanted, 0)) end
if not state or state == 1 then
  for prio = 0, 2 do
    for _, no in ipairs(wanted and { wanted } or call('ZRANGE', P .. ':a:' .. prio, 0, -1)) do
      add(set_source(P .. ':r:' .. prio .. ':' .. digits(no), tonumber(no), 1))
    end
  end
end
if not state or state == 3 then
  for _, no in ipairs(wanted and { wanted } or numbers_of_dead()) do
    add(set_source(P .. ':y:' .. digits(no), no, 3))
  end
end
if not state or state == 2 then add(lease_source()) end

local answer = { 0 }
while true do
  if is_delayed and not wanted then add_delayed() end
  if not heap[1] then break end
  if #answer > most then
    answer[1] = 1
    break
  end
  local row = heap[1].row
  local f = field_of(row.no, row.tid)
  local record, more = call('HGET', P .. ':j', f), call('HGET', P .. ':m', f)
  if record and is_whole(record, more) then
    answer[#answer + 1] = { topic_name(row.no), row.tid, row.state, record, more or '' }
  end
  heap[1].row = heap[1].source()
  if not heap[1].row then
    heap[1] = heap[#heap]
    heap[#heap] = nil
  end
  if heap[1] then sink(1) end
end
return answer
