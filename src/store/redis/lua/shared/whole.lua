-- whole: a job with all that is kept of it, as the reader unpacks it: topic, tag+id, state, record, what has happened to it
-- ('' = nothing), attempts ('' = none), body ('' = it lies in the record).
local function whole(job)
  local f = field_of(job.no, job.tid)
  return { topic_name(job.no), job.tid, state_of(job), call('HGET', P .. ':j', f), call('HGET', P .. ':m', f) or '',
    call('HGET', P .. ':p', f) or '', job.apart and call('HGET', P .. ':b', f) or '' }
end
