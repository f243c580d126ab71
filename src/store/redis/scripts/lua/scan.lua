#!lua flags=no-writes,allow-oom
-- scan: examines one piece of the jobs in the bucket by id, body, topic, state and due time.
-- @keys P
-- @args cursor ('0' = from the start), jobs, id prefix ('' = any), part of the body ('' = any), state (code;
--   '' = any), since, until (ms), topics (none = all)
-- @returns next cursor ('0' = the end), jobs examined, jobs in the bucket; per match: topic, tag+id, state,
--   record, state record
-- @include clock, numbers, topics, jobs, queues
-- Why: no key is sorted by id or holds bodies, so every job is examined, in bounded pieces between other
--   calls. A small hash comes as one piece. A job that exists from the first piece to the last is in one.
local prefix, part, state = ARGV[6], ARGV[7], tonumber(ARGV[8])
local since, upto = tonumber(ARGV[9]), tonumber(ARGV[10])
local wanted
if #ARGV > 10 then
  wanted = {}
  local names = {}
  for i = 11, #ARGV do names[i - 10] = ARGV[i] end
  learn_numbers(names)
  for _, name in ipairs(names) do wanted[topic_numbers[name] or 0] = true end
end

local uuid = '%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x'
local may_be_uuid = not prefix:find('[^0-9a-f%-]')
local function has_prefix(f)
  if prefix == '' then return true end
  if f:byte(4) == 0 then return f:sub(5, 4 + #prefix) == prefix end
  return may_be_uuid and #f == 20 and uuid:format(f:byte(5, 20)):sub(1, #prefix) == prefix
end

-- Passes over most records before they are unpacked: the part is in the whole record, or the body is apart.
local function may_have_part(record)
  return part == '' or record:find(part, 1, true) or (record:byte(1) or 0) % 64 >= 32
end

local function has_part(job)
  if part == '' then return true end
  local f = field_of(job.no, job.tid)
  if job.apart then return (call('HGET', P .. ':b', f) or ''):find(part, 1, true) ~= nil end
  local first = content_at(job)
  -- Before the body stands a content type that has no code.
  local tail = tail_of(job)
  if job.flags % 32 >= 28 then first = first + 2 + struct.unpack('>I2', tail, first) end
  return tail:find(part, first, true) ~= nil
end

local found = call('HSCAN', P .. ':j', ARGV[4], 'COUNT', ARGV[5])
local answer = { found[1], #found[2] / 2, call('HLEN', P .. ':j') }
for i = 1, #found[2], 2 do
  local f, record = found[2][i], found[2][i + 1]
  if #f > 3 and has_prefix(f) and may_have_part(record) and (not wanted or wanted[(struct.unpack('>I3', f))]) then
    local no, tid = (struct.unpack('>I3', f)), f:sub(4)
    local more = call('HGET', P .. ':m', f)
    local job = is_whole(record, more) and job_of(no, tid, record, more)
    if job and job.due >= since and job.due < upto and has_part(job) then
      local its_state = state_of(job)
      if not state or state == its_state then
        answer[#answer + 1] = { topic_name(no), tid, its_state, record, more or '' }
      end
    end
  end
end
return answer
