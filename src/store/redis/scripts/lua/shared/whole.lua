-- whole: a job with all its records, as records.ts unpacks it: topic, tag+id, state, record, state record (''
-- = none), attempts ('' = none), body ('' = in the record).
local function whole(job)
  local f = field_of(job.no, job.tid)
  return { topic_name(job.no), job.tid, state_of(job), call('HGET', P .. ':j', f), call('HGET', P .. ':m', f) or '',
    call('HGET', P .. ':p', f) or '', job.apart and call('HGET', P .. ':b', f) or '' }
end

-- The same with an empty body.
local function bodiless(job)
  local f = field_of(job.no, job.tid)
  local record = call('HGET', P .. ':j', f)
  -- Keeps of the tail only the extension block and the text of a content type without a code.
  local tail, kept = tail_of(job), content_at(job) - 1
  if job.flags % 32 >= 28 then kept = kept + 2 + struct.unpack('>I2', tail, kept + 1) end
  return { topic_name(job.no), job.tid, state_of(job), record:sub(1, #record - #tail + kept),
    call('HGET', P .. ':m', f) or '', call('HGET', P .. ':p', f) or '', '' }
end
