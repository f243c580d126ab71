-- strikes: leases that ended without an outcome. Their jobs are ready again with one strike more; with the strike number
-- limits.strikesPoison a job is buried instead (no failure more).
-- Answers {returned, more, topic and tag+id of each poisoned}.
local function strike(members, max)
  local poisoned = {}
  local struck = 0
  for i = 1, math.min(#members, max) do
    local lease = read_lease(members[i])
    local job = find_in(lease.no, lease.tid)
    job.strikes = job.strikes + 1
    struck = struck + 1
    if job.strikes < limits.strikesPoison then
      back_in_place(job)
    else
      bury(job, limits.poison, last_attempt(job))
      poisoned[#poisoned + 1] = topic_name(job.no)
      poisoned[#poisoned + 1] = job.tid
    end
  end
  finish()
  return { struck - #poisoned / 2, #members > struck and 1 or 0, poisoned }
end
