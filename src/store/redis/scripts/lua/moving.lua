#!lua flags=allow-oom
-- moving: prepares, opens or closes a move of the jobs of a jobs.db into this bucket.
-- @keys P
-- @args name of the move, `prepare`, `open` or `close`, mark of the mover that prepares it
-- @returns 0 = it is not open, 1 = it is, 2 = the bucket has lost changes that are not put back yet
-- @writes the open moves; one that a mover prepares is its name, a colon and the mark
-- @include clock
-- Why: a put of a process that stood still may arrive after its job has ended here. While a move is open or
-- prepared, each end leaves an entry, and none is removed; a put that names no open move puts nothing. A
-- prepared move is opened only where its mark is left: entries that its mover has left meanwhile are, too.
local lost = note or went_back
local mark = ARGV[4] .. ':' .. ARGV[6]
local is_open, is_prepared, names = false, ARGV[5] == 'prepare', {}
for name in (moving or ''):gmatch('%S+') do
  if name == ARGV[4] then is_open = true
  elseif name == mark then is_prepared = true
  elseif ARGV[5] ~= 'close' or name:match('^[^:]+') ~= ARGV[4] then names[#names + 1] = name end
end
if ARGV[5] == 'close' then is_open, is_prepared = false, false
elseif ARGV[5] == 'open' and is_prepared and not lost then is_open = true end
if is_open then names[#names + 1] = ARGV[4]
elseif is_prepared then names[#names + 1] = mark end
if names[1] then call('HSET', P .. ':n', 'moving', table.concat(names, ' '))
else call('HDEL', P .. ':n', 'moving') end
if lost then return 2 end
return is_open and 1 or 0
