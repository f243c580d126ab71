#!lua flags=allow-oom
-- release: makes reserved jobs ready at their old place; no attempt, no strike.
-- @keys P
-- @args the leases (shared/leases.lua); number and attempt are unused
-- @returns a byte per lease: 1 released, 0 lost
-- @writes the lease, then the state record, its set
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, leases
local answer = finish_leases(back_in_place, true)
finish()
return answer
