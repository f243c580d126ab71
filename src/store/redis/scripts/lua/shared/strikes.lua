-- strikes: gives a strike for each lease that ended without an outcome: its job is ready again. A lease whose
-- loss is strike number limits.strikesPoison stays as it is: its caller buries the job. Returns {returned,
-- more, topic, tag+id, version and token of each of these}.
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
        local n = #poisoned
        poisoned[n + 1], poisoned[n + 2] = topic_name(job.no), job.tid
        poisoned[n + 3], poisoned[n + 4] = job.version, job.token
      end
    end
  end
  finish()
  return { returned, #members > max and 1 or 0, poisoned }
end
