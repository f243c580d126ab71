#!lua flags=allow-oom
-- look: compares the numbers that the bucket has with those that the journal knows. A lower one makes a note.
-- @keys P
-- @args number of fields to compare; per field: name (w<writer> or r<instance>), number that it must have;
--   number of marks to raise, per mark: name (r<instance>), number; optional: an instance, and the
--   incarnation below which its writers are forgotten. A forgotten writer has no number: MySQL that goes back
--   gets its changes again
-- @returns as in P:n the note, or the id of the last one that was healed (0: none was)
-- @writes the note, marks, numbers
-- @include clock, numbers, healing
-- The incarnation below which the writers of an instance are forgotten.
local function forgotten_below(instance) return tonumber(call('HGET', P .. ':n', 'f' .. instance) or '0') end
local function is_forgotten(name)
  local instance, incarnation = string.match(name, '^w(%d+)%.(%d+)$')
  return instance and tonumber(incarnation) < forgotten_below(instance)
end
local from, lost = nil, 0
local count = tonumber(ARGV[4])
for i = 5, 3 + 2 * count, 2 do
  local number = tonumber(ARGV[i + 1])
  local stored = tonumber(call('HGET', P .. ':n', ARGV[i]) or is_forgotten(ARGV[i]) and ARGV[i + 1] or '0')
  local is_lost = stored < number and number > healed and (not note or number > note.id or stored < note.from)
  if is_lost then from, lost = math.min(stored, from or stored), math.max(number, lost) end
end
if from then make_note(from, lost) end
local marks_at = 5 + 2 * count
local marks = tonumber(ARGV[marks_at])
for i = marks_at + 1, marks_at + 2 * marks, 2 do
  local stored = tonumber(call('HGET', P .. ':n', ARGV[i]) or '0')
  if tonumber(ARGV[i + 1]) > stored then call('HSET', P .. ':n', ARGV[i], ARGV[i + 1]) end
end
local forget = ARGV[marks_at + 2 * marks + 1]
if forget then
  local below = tonumber(ARGV[marks_at + 2 * marks + 2])
  if below > forgotten_below(forget) then call('HSET', P .. ':n', 'f' .. forget, digits(below)) end
  for _, name in ipairs(call('HKEYS', P .. ':n')) do
    local instance, incarnation = string.match(name, '^w(%d+)%.(%d+)$')
    if instance == forget and tonumber(incarnation) < below then call('HDEL', P .. ':n', name) end
  end
end
keep_numbers()
return note and note_text() or digits(healed)
