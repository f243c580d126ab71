#!lua flags=no-writes,allow-oom
-- marks: returns the newest numbers that instances reported to the bucket as shipped.
-- @keys P
-- @args none
-- @returns per mark: instance, number, as text
local answer = {}
local all = call('HGETALL', P .. ':n')
for i = 1, #all, 2 do
  local instance = string.match(all[i], '^r(%d+)$')
  if instance then
    answer[#answer + 1] = instance
    answer[#answer + 1] = all[i + 1]
  end
end
return answer
