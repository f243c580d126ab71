#!lua flags=allow-oom
-- dead-expire: removes old dead letters whose alert is settled, oldest death first.
-- @keys P
-- @args max, age (ms): removes older ones
-- @returns expired, 1 when more exist; with a journal topic, tag+id and change of each job
-- @writes as cancel
-- @include clock, numbers, topics, jobs, queues, alerts, moves, quarantine, healing, ends
-- Why: walks the settled alerts, one per dead letter, so it never passes over those whose mail waits for
--   weeks.
local max = tonumber(ARGV[4])
-- An entry of a lost job must not go before the put-back compares it.
if note then return { 0, 0, {} } end
local function is_settled(alert) return alert.state >= 2 end

local found = call('ZRANGEBYSCORE', P .. ':os', '-inf', '(' .. digits(now - tonumber(ARGV[5])), 'LIMIT', 0, max + 1)
local expired, changed = 0, {}
for i = 1, math.min(#found, max) do
  local alert = find_alert_at(':os', found[i], version_of(found[i]), is_settled)
  local job = alert and find_in(alert.no, alert.tid)
  if job and job.state == 3 and job.version == alert.version then
    end_job(job, 3)
    note_change(changed, job)
    expired = expired + 1
  elseif alert then
    -- The alert has no readable dead letter: quarantined, and fsck names it.
    quarantine_parts(topic_name(alert.no), alert.tid, part('o', alert_record(alert)))
    remove_alert(alert)
  end
end
finish()
return { expired, #found > max and 1 or 0, changed }
