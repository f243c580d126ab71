-- strikes: gives a strike for each lease that ended without an outcome. The job is ready again; with strike
-- number limits.strikesPoison it is buried instead (no failure more). Returns {returned, more, topic, tag+id
-- and change of each poisoned job}.
local function strike(members, max)
  local poisoned = {}
  local returned = 0
  for i = 1, math.min(#members, max) do
    local job = find_at_lease(':l', members[i])
    if job then
      job.strikes = job.strikes + 1
      if job.strikes < limits.strikesPoison then
        back_in_place(job)
        returned = returned + 1
      else
        bury(job, limits.poison, last_attempt(job))
        local n = #poisoned
        poisoned[n + 1], poisoned[n + 2], poisoned[n + 3] = topic_name(job.no), job.tid, change_of(job)
      end
    end
  end
  finish()
  return { returned, #members > max and 1 or 0, poisoned }
end
