-- owners: finds the leases of an instance, in the order of their ends. Reads all leases in pieces; the slots
-- of all notifiers bound them. A set per owner would cost every reserve and every finishing write one more
-- write.
local function leases_of(instance, matches, max)
  local found = {}
  local at = 0
  repeat
    local piece = call('ZRANGE', P .. ':l', at, at + 999)
    for _, member in ipairs(piece) do
      -- Invalid members are quarantined when they expire.
      if is_lease(member) then
        local token, its, incarnation = struct.unpack('>I7I4I6', member)
        if its == instance and matches(incarnation, token) then found[#found + 1] = member end
      end
      if #found >= max then return found end
    end
    at = at + #piece
  until #piece == 0
  return found
end
