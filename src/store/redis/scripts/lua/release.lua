#!lua flags=allow-oom
-- release: reserved → ready at its old place; no attempt, no strike.
-- @keys P
-- @args the leases (shared/leases.lua); neither number nor attempt is read
-- @returns a byte per lease: 1 released, 0 lost
-- @writes the lease, then what has happened to it, place
-- @include clock, numbers, topics, jobs, queues, alerts, moves, leases, aside
local answer = finish_leases(back_in_place)
finish()
return answer
