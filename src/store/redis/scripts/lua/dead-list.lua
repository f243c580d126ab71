#!lua flags=no-writes,allow-oom
-- dead-list: lists dead letters before a place, newest death first.
-- @keys P
-- @args limit, max bytes, place (ms, version), filter
-- @returns 1 when more follow; jobs with empty bodies
-- @include clock, numbers, topics, jobs, queues, places, dead, whole
local limit, bytes_max = tonumber(ARGV[4]), tonumber(ARGV[5])
local at, version = tonumber(ARGV[6]), tonumber(ARGV[7])
local filter = read_filter(8)
local key, no = dead_keys(filter)
if not key then return { 0 } end

-- Iterates: each call returns the next older job, nil at the end.
local function newest_first()
  if filter.ids then
    local found = dead_of_ids(filter, no)
    local n = #found + 1
    return function()
      repeat n = n - 1 until not found[n] or found[n].dead_at < at or (found[n].dead_at == at and found[n].version < version)
      return found[n]
    end
  end
  local low, rank = rank_of(key, filter.since, 0), rank_of(key, at, version)
  rank = math.min(rank, rank_of(key, filter.upto, 0))
  return function()
    while rank > low do
      rank = rank - 1
      local its, tid = key_of_member(call('ZRANGE', key, rank, rank)[1], no)
      local job = its and find_in(its, tid)
      if job then return job end
    end
    return nil
  end
end

local answer, bytes = { 0 }, 0
for job in newest_first() do
  if #answer > limit then
    answer[1] = 1
    break
  end
  local all = bodiless(job)
  bytes = bytes + #all[4] + #all[6]
  if #answer > 1 and bytes > bytes_max then
    answer[1] = 1
    break
  end
  answer[#answer + 1] = all
end
return answer
