-- healing: what a script does in a bucket that has lost changes, until the journal has put them back. An
-- absent id may be a lost job, and a job may be one that was cancelled or replaced. So ends leave history
-- entries also for absent ids: the put-back compares them.
-- Invariant: the note is written by the first script that meets the loss, before its own work.

-- Whether a verb that names a version has to wait: a later one may be lost, and the number of the change
-- would end it.
local function must_wait(version) return note and version ~= '' end

local function note_text() return digits(note.from) .. ' ' .. digits(note.id) .. ' ' .. note.phase end

-- The id is above the highest lost number that the caller knows: that one shows no further loss. Nothing is
-- reserved for limits.noteHoldMs: a healing that begins meanwhile extends the hold (advance.lua).
local function make_note(from, lost)
  rise_above(lost)
  note = { from = math.min(from, note and note.from or from), id = draw(), phase = 'ends' }
  call('HSET', P .. ':n', 'heal', note_text(), 'seq', digits(seq), 'hold', digits(us + limits.noteHoldMs * 1000))
  keep_drawn_at()
end

if went_back then make_note(watermark, tonumber(known)) end

-- Removes the history entry of an id: an id has either a job or an entry.
local function forget(f)
  local ended = call('HGET', P .. ':h', f)
  if not ended then return end
  call('HDEL', P .. ':h', f)
  if #ended < 35 then
    quarantine_parts(topic_name((struct.unpack('>I3', f))), f:sub(4), part('h', ended))
    return
  end
  local _, failures, _, version, origin = struct.unpack('>BI2I6I7I7', ended)
  call('ZREM', P .. ':e', struct.pack('>I7', version) .. f)
  if may_have_attempts(failures, version, origin) then call('HDEL', P .. ':p', f) end
end

-- Takes a job out of its set and removes its further records: another one takes its record.
local function displace(old, f)
  leave_place(old)
  if old.had_more then call('HDEL', P .. ':m', f) end
  if may_have_attempts(old.failures, old.version, old.origin) then call('HDEL', P .. ':p', f) end
  if old.apart then call('HDEL', P .. ':b', f) end
end

-- Follows a history entry: the number of the cancel or purge. An attempt is text and never begins with it.
local function closed_by(number) return '\255' .. struct.pack('>I7', number) end

-- Up to which version the history entry of an id ends it; 0: there is none.
local function ended_version(f)
  local ended = call('HGET', P .. ':h', f)
  if not ended or #ended < 35 then return 0 end
  return (struct.unpack('>I7', ended, ended:byte(36) == 255 and 37 or 10))
end

-- Leaves the entry of an absent id, how: code of the end. Returns its change.
local function leave_entry(no, tid, how, version, number)
  local f = field_of(no, tid)
  forget(f)
  call('HSET', P .. ':h', f, struct.pack('>BI2I6I7I7I6I6', how, 0, now, version, version, now, now))
  call('ZADD', P .. ':e', now, struct.pack('>I7', version) .. f)
  return change_of({ version = version, origin = version, due = now, failures = 0 }, number)
end
