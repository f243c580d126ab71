#!lua flags=no-writes,allow-oom
-- history-get: returns the history entry of an id.
-- @keys P
-- @args topic, tag+id
-- @returns record, attempts ('' = none); nothing without an entry
-- @include topics, jobs
local no = topic_number(ARGV[4])
local f = no and field_of(no, ARGV[5])
local record = f and call('HGET', P .. ':h', f)
return record and #record >= 35 and { record, call('HGET', P .. ':p', f) or '' } or {}
