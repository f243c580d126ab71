#!lua flags=no-writes,allow-oom
-- alert-state: reads the alert of a dead letter.
-- @keys P
-- @args version
-- @returns storage clock (ms), topic, record; the record is '' for no alert
-- @include clock, numbers, topics, alerts
local alert = find_alert(tonumber(ARGV[4]))
if not alert then return { now, '', '' } end
return { now, topic_name(alert.no), alert_record(alert) }
