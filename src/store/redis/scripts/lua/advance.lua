#!lua flags=allow-oom
-- advance: moves the note to its next phase, or clears it: its id alone is kept. With `ends` the note stays,
-- and nothing is reserved for a while longer.
-- @keys P
-- @args id of the note; `ends`, `jobs` or `healed`; of `ends`: ms from now
-- @returns 1, or 0: another note is in force, or of `ends` another phase, or a loss that no note covers yet
-- @writes the note, or the end of the hold (µs), unless it is later
-- @include clock, numbers, holds
-- Why: a healing that waits for ends that only another instance has must hold the jobs as long as it waits;
--   one that has died, or that has no MySQL, must not.
if not note or note.id ~= tonumber(ARGV[4]) or went_back then return 0 end
local to, id = ARGV[5], digits(note.id)
if to == 'ends' then
  if note.phase ~= 'ends' then return 0 end
  keep_note_hold(math.max(note_held(), us + tonumber(ARGV[6]) * 1000))
  return 1
end
call('HDEL', P .. ':n', 'hold')
call('HSET', P .. ':n', 'heal', to == 'healed' and id or digits(note.from) .. ' ' .. id .. ' jobs')
return 1
