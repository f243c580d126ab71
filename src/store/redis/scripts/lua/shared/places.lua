-- places: lists in order of (score, version). A place is such a pair, not a row, so a cursor stays valid when
-- its row is gone. Members begin with the version. The number of members before the place.
local function rank_of(key, score, version)
  local low = call('ZCOUNT', key, '-inf', '(' .. digits(score))
  local high = low + call('ZCOUNT', key, digits(score), digits(score))
  while low < high do
    local middle = math.floor((low + high) / 2)
    local its = struct.unpack('>I7', call('ZRANGE', key, middle, middle)[1])
    if its < version then low = middle + 1 else high = middle end
  end
  return low
end
