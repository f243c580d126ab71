-- holds: the ends of times in which a bucket gives nothing out: no job while a healing may find that it has
-- ended (`hold`, µs), no expired lease after an outage (`recover-held`, ms).
-- Invariant: by the clock of now no hold lasts longer than its longest time. A clock that was set back does
-- not end one: it then lasts that time again. One that has ended begins again, for that time at most, where
-- the step back reaches before its end.

-- nil: the hold begins now
local function end_of_hold(stored, at, longest) return math.min(tonumber(stored or 'inf'), at + longest) end

local function keep_note_hold(held)
  call('HSET', P .. ':n', 'hold', digits(held))
  return held
end

-- A note that another build made may have no hold.
local function note_held()
  local stored = call('HGET', P .. ':n', 'hold')
  local held = end_of_hold(stored, us, limits.noteHoldMs * 1000)
  return held == tonumber(stored or '') and held or keep_note_hold(held)
end
