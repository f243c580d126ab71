#!lua flags=allow-oom
-- moving: opens or closes a move of the jobs of a jobs.db into this bucket, or asks for it.
-- @keys P
-- @args name of the move, 1 = open it, 0 = close it, '' = neither
-- @returns 1 = it was open
-- @writes the open moves
-- @include clock
-- Why: a put of a process that stood still may arrive after its job has ended here. While a move is open,
-- each end leaves an entry, and none is removed; a put that names a closed move puts nothing.
local names, was_open = {}, 0
for name in (moving or ''):gmatch('%S+') do
  if name == ARGV[4] then was_open = 1 else names[#names + 1] = name end
end
if ARGV[5] == '' then return was_open end
if ARGV[5] == '1' then names[#names + 1] = ARGV[4] end
if names[1] then call('HSET', P .. ':n', 'moving', table.concat(names, ' '))
else call('HDEL', P .. ':n', 'moving') end
return was_open
