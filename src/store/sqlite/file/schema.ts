// The layout of the embedded job store, jobs.db. Owns the tables and the numbers that stand for words in them, and what
// marks a file as ours. The same text stands in sql/sqlite/jobs.sql for use by hand; a test compares the two. It is kept
// here because a bundle, a test runner and a TypeScript loader agree on modules and on nothing else.

import type { BuryReason, EndState, JobState, Priority } from '../../../core/job.ts';

/** In the header of the file: "dqjb". */
export const applicationId = 0x64716a62;
/** In the header of the file; another layout is another number, and no process reads a file with a higher one. */
export const layoutVersion = 1;

/** The numbers in job.state, job.prio, job.reason and job.ended_as are places in these lists. They are stored: only ever add at the end. */
export const stateCodes: readonly JobState[] = ['delayed', 'ready', 'reserved', 'dead'];
export const priorityCodes: readonly Priority[] = ['high', 'normal', 'low'];
export const reasonCodes: readonly BuryReason[] = ['attempts_exhausted', 'gone', 'no_retry', 'poison'];
export const endCodes: readonly EndState[] = ['done', 'cancelled', 'purged', 'expired'];

export const delayed = 0;
export const ready = 1;
export const reserved = 2;
export const dead = 3;
export type StateCode = typeof delayed | typeof ready | typeof reserved | typeof dead;
/** Not a state of a job: its row is history. */
export const ended = 4;

export const schema = `\
-- The embedded job store of dq, layout 1. Made by dq itself; to make one by hand: sqlite3 jobs.db < sql/sqlite/jobs.sql
-- Times are epoch ms. job.state: 0 delayed, 1 ready, 2 reserved, 3 dead, 4 ended. job.prio: 0 high, 1 normal, 2 low.
-- job.reason: 0 attempts_exhausted, 1 gone, 2 no_retry, 3 poison. alert.state: 0 owed, 1 claimed, 2 sent, 3 nobody.
-- job.ended_as: 0 done, 1 cancelled, 2 purged, 3 expired.
PRAGMA application_id = ${applicationId};
PRAGMA user_version = ${layoutVersion};

-- seq: the last version or token drawn; wheel: the ticket that comes next; clock: the last time that was trusted
CREATE TABLE meta(k TEXT PRIMARY KEY, v INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO meta(k, v) VALUES ('seq', 0), ('wheel', 0);

-- Rows stay: their numbers are in the memory of the owner. told_at: when an alert of the topic was last sent
CREATE TABLE topic(no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, told_at INTEGER) STRICT;

-- One row per live or dead job, and one of the last version of an id that has ended, for history.retention. id is a BLOB: compared byte for byte, and never cut at a NUL.
-- ctype: the content type of the body; of a job that has ended, and whose only attempt delivered it, that attempt.
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
-- By ended_at and not by state: each change of state would write them anew.
CREATE INDEX job_time ON job(due, version) WHERE ended_at IS NULL;
CREATE INDEX job_topic ON job(topic, due, version) WHERE ended_at IS NULL;
CREATE INDEX job_ended ON job(ended_at, version) WHERE ended_at IS NOT NULL;

-- Apart from job, and gone with its end, so that a change of state rewrites neither.
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

-- How many jobs there are of each kind, written in the transaction that moved them: counting 10 million rows takes seconds.
CREATE TABLE tally(
  topic INTEGER NOT NULL,
  prio INTEGER NOT NULL,
  state INTEGER NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (topic, prio, state)
) STRICT, WITHOUT ROWID;
`;
