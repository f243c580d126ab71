-- The embedded job store of dq, layout 1. dq creates it; by hand: sqlite3 jobs.db < sql/sqlite/jobs.sql
-- Times are epoch ms.
-- job.state: 0 delayed, 1 ready, 2 reserved, 3 dead, 4 ended. job.prio: 0 high, 1 normal, 2 low.
-- job.reason: 0 attempts_exhausted, 1 gone, 2 no_retry, 3 poison.
-- job.ended_as: 0 done, 1 cancelled, 2 purged, 3 expired.
-- alert.state: 0 owed, 1 claimed, 2 sent, 3 'nobody'.
PRAGMA application_id = 1685154402;
PRAGMA user_version = 1;

-- seq: last version or token drawn; wheel: next ticket; clock: last trusted time
CREATE TABLE meta(k TEXT PRIMARY KEY, v INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO meta(k, v) VALUES ('seq', 0), ('wheel', 0);

-- Rows are never removed: the owner keeps their numbers in memory. told_at: when the last alert mail was sent
CREATE TABLE topic(no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, told_at INTEGER) STRICT;

-- One row per live or dead job, and one per ended id (its last version) for history.retention.
-- id is a BLOB: compared byte by byte, and never cut at a NUL.
-- ctype: content type of the body; in an ended job whose only attempt delivered it, that attempt.
CREATE TABLE job(
  n INTEGER PRIMARY KEY,
  topic INTEGER NOT NULL,
  id BLOB NOT NULL,
  state INTEGER NOT NULL,
  prio INTEGER NOT NULL,
  due INTEGER NOT NULL,
  version INTEGER NOT NULL,
  origin INTEGER NOT NULL,
  accepted_at INTEGER NOT NULL,
  failures INTEGER NOT NULL DEFAULT 0,
  strikes INTEGER NOT NULL DEFAULT 0,
  ctype TEXT,
  token INTEGER,
  owner_instance INTEGER,
  owner_incarnation INTEGER,
  lease_until INTEGER,
  dead_at INTEGER,
  reason INTEGER,
  ended_at INTEGER,
  ended_as INTEGER
) STRICT;
CREATE UNIQUE INDEX job_key ON job(topic, id);
CREATE INDEX job_due ON job(due, version) WHERE state = 0;
CREATE INDEX job_ready ON job(prio, topic, due, version) WHERE state = 1;
CREATE INDEX job_leased ON job(lease_until) WHERE state = 2;
CREATE INDEX job_dead ON job(dead_at, version) WHERE state = 3;
CREATE INDEX job_dead_topic ON job(topic, dead_at, version) WHERE state = 3;
-- Filtered by ended_at, not by state: each change of state would rewrite these indexes.
CREATE INDEX job_time ON job(due, version) WHERE ended_at IS NULL;
CREATE INDEX job_topic ON job(topic, due, version) WHERE ended_at IS NULL;
CREATE INDEX job_ended ON job(ended_at, version) WHERE ended_at IS NOT NULL;

-- Separate from job and removed when it ends, so that a change of state does not rewrite them.
CREATE TABLE body(n INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
CREATE TABLE attempts(n INTEGER PRIMARY KEY, list TEXT NOT NULL) STRICT;

CREATE TABLE alert(
  version INTEGER PRIMARY KEY,
  topic INTEGER NOT NULL,
  id BLOB NOT NULL,
  dead_at INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  attempt TEXT,
  state INTEGER NOT NULL,
  claimed_until INTEGER
) STRICT;
CREATE INDEX alert_time ON alert(dead_at, version);
CREATE INDEX alert_settled ON alert(dead_at, version) WHERE state >= 2;
CREATE INDEX alert_owed ON alert(topic, dead_at, version) WHERE state < 2;

-- Number of jobs per kind, written with each move: counting 10 million rows takes seconds.
CREATE TABLE tally(
  topic INTEGER NOT NULL,
  prio INTEGER NOT NULL,
  state INTEGER NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (topic, prio, state)
) STRICT, WITHOUT ROWID;

INSERT OR REPLACE INTO meta VALUES('seq', 1795390779501000);
INSERT OR REPLACE INTO meta VALUES('wheel', 6);
INSERT OR REPLACE INTO topic VALUES(1, 'a', NULL);
INSERT OR REPLACE INTO topic VALUES(2, 'b', NULL);
INSERT OR REPLACE INTO topic VALUES(3, 'c', NULL);
INSERT OR REPLACE INTO topic VALUES(4, 'd', NULL);
INSERT OR REPLACE INTO topic VALUES(5, 'e', NULL);
INSERT OR REPLACE INTO topic VALUES(6, 'f', NULL);
INSERT OR REPLACE INTO job VALUES(1, 1, X'64656C61796564', 0, 1, 4000000000000, 1795390779456000, 1795390779456000, 1795390779456, 0, 0, 'application/x-unusual', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT OR REPLACE INTO job VALUES(2, 1, X'30313938633064652D303030302D373030302D383030302D303030303030303061626364', 1, 1, 1795390779463, 1795390779463000, 1795390779463000, 1795390779463, 0, 0, 'text/plain', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT OR REPLACE INTO job VALUES(3, 2, X'6661696C6564', 0, 1, 4000000000001, 1795390779475000, 1795390779466000, 1795390779466, 1, 0, 'text/plain', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT OR REPLACE INTO job VALUES(4, 3, X'7265736572766564', 2, 1, 1795390779477, 1795390779477000, 1795390779477000, 1795390779477, 0, 0, 'text/plain', 1795390779478000, 3000000007, 1, 1795390839478, NULL, NULL, NULL, NULL);
INSERT OR REPLACE INTO job VALUES(5, 4, X'64656164', 3, 1, 1795390779479, 1795390779479000, 1795390779479000, 1795390779479, 1, 0, 'application/x-unusual', NULL, NULL, NULL, NULL, 1795390779482, 1, NULL, NULL);
INSERT OR REPLACE INTO job VALUES(6, 5, X'646F6E65', 4, 1, 1795390779485, 1795390779485000, 1795390779485000, 1795390779485, 0, 0, '1900000000000
12
200
dq-notifier-0
vm-1
busy \u0000 “später”', NULL, NULL, NULL, NULL, NULL, NULL, 1795390779490, 0);
INSERT OR REPLACE INTO job VALUES(7, 6, X'646F6E652032', 4, 1, 1795390779496, 1795390779492000, 1795390779492000, 1795390779492, 1, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795390779498, 0);
INSERT OR REPLACE INTO job VALUES(8, 5, X'63616E63656C6C6564', 4, 1, 1795390779501, 1795390779501000, 1795390779501000, 1795390779501, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795390779503, 1);
INSERT OR REPLACE INTO body VALUES(1, zeroblob(1500));
INSERT OR REPLACE INTO body VALUES(2, X'626F6479206F662030313938633064652D303030302D373030302D383030302D303030303030303061626364');
INSERT OR REPLACE INTO body VALUES(3, X'626F6479206F66206661696C6564');
INSERT OR REPLACE INTO body VALUES(4, X'626F6479206F66207265736572766564');
INSERT OR REPLACE INTO body VALUES(5, zeroblob(1500));
INSERT OR REPLACE INTO attempts VALUES(3, '[{"attempt":1,"startedAt":1900000000000,"durationMs":12,"outcome":"failed","reason":"status","status":503,"replyExcerpt":"busy \\u0000 “später”","notifier":"dq-notifier-0","host":"vm-1"}]');
INSERT OR REPLACE INTO attempts VALUES(5, '[{"attempt":1,"startedAt":1900000000000,"durationMs":12,"outcome":"failed","reason":"status","status":503,"replyExcerpt":"busy \\u0000 “später”","notifier":"dq-notifier-0","host":"vm-1"}]');
INSERT OR REPLACE INTO attempts VALUES(7, '[{"attempt":1,"startedAt":1900000000000,"durationMs":12,"outcome":"failed","reason":"status","status":503,"replyExcerpt":"busy \\u0000 “später”","notifier":"dq-notifier-0","host":"vm-1"},{"attempt":2,"startedAt":1900000000000,"durationMs":12,"outcome":"delivered","reason":null,"status":200,"replyExcerpt":"busy \\u0000 “später”","notifier":"dq-notifier-0","host":"vm-1"}]');
INSERT OR REPLACE INTO alert VALUES(1795390779479000, 4, X'64656164', 1795390779482, 1, 1, '{"attempt":1,"startedAt":1900000000000,"durationMs":12,"outcome":"failed","reason":"status","status":503,"replyExcerpt":"busy \\u0000 “später”","notifier":"dq-notifier-0","host":"vm-1"}', 0, NULL);
INSERT OR REPLACE INTO tally VALUES(1, 1, 0, 1);
INSERT OR REPLACE INTO tally VALUES(1, 1, 1, 1);
INSERT OR REPLACE INTO tally VALUES(2, 1, 0, 1);
INSERT OR REPLACE INTO tally VALUES(2, 1, 1, 0);
INSERT OR REPLACE INTO tally VALUES(2, 1, 2, 0);
INSERT OR REPLACE INTO tally VALUES(3, 1, 1, 0);
INSERT OR REPLACE INTO tally VALUES(3, 1, 2, 1);
INSERT OR REPLACE INTO tally VALUES(4, 1, 1, 0);
INSERT OR REPLACE INTO tally VALUES(4, 1, 2, 0);
INSERT OR REPLACE INTO tally VALUES(4, 1, 3, 1);
INSERT OR REPLACE INTO tally VALUES(5, 1, 1, 0);
INSERT OR REPLACE INTO tally VALUES(5, 1, 2, 0);
INSERT OR REPLACE INTO tally VALUES(6, 1, 1, 0);
INSERT OR REPLACE INTO tally VALUES(6, 1, 2, 0);
