#!lua flags=allow-oom
-- advance: moves the note to its next phase, or clears it: its id alone is kept.
-- @keys P
-- @args id of the note; `jobs` or `healed`
-- @returns 1, or 0: another note is in force
-- @writes the note
if not note or note.id ~= tonumber(ARGV[4]) then return 0 end
local id = string.format('%.0f', note.id)
call('HSET', P .. ':n', 'heal', ARGV[5] == 'healed' and id or string.format('%.0f', note.from) .. ' ' .. id .. ' jobs')
return 1
