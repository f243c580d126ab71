// Defines the layout of jobs.db: tables, the numbers stored for words, the file's identification.
// `npm run docs` writes the same text to sql/sqlite/jobs.sql for manual use; a test compares both.
// It is a module, because bundles, test runners and TypeScript loaders all support modules but no other kind
// of file.

import {
  alertCodes,
  deadReasonCodes,
  endCodes,
  priorityCodes,
  stateCodes,
} from '../../../core/stored-codes.ts';

/** In the file header: "dqjb". */
export const applicationId = 0x64716a62;
/** In the file header; a changed layout gets a new number, and no process opens a file with another one. */
export const layoutVersion = 1;

/** Indexes of stateCodes. */
export const delayed = 0;
export const ready = 1;
export const reserved = 2;
export const dead = 3;
export type StateCode = typeof delayed | typeof ready | typeof reserved | typeof dead;
/** Not a job state: the row is a history entry. */
export const ended = 4;

/** The name of the only partition in a moment (core/job.ts). */
export const partitionName = 'jobs.db';

const codesOf = (words: readonly string[]) => words.map((word, code) => `${code} ${word}`).join(', ');

export const schema = `\
-- The embedded job store of dq, layout 1. dq creates it; by hand: sqlite3 jobs.db < sql/sqlite/jobs.sql
-- Times are epoch ms.
-- job.state: ${codesOf([...stateCodes, 'ended'])}. job.prio: ${codesOf(priorityCodes)}.
-- job.reason: ${codesOf(deadReasonCodes)}.
-- job.ended_as: ${codesOf(endCodes)}.
-- alert.state: ${codesOf(alertCodes)}.
PRAGMA application_id = ${applicationId};
PRAGMA user_version = ${layoutVersion};

-- seq: last number drawn; wheel: next ticket; clock: last trusted time; moving, moving_at, moving_jobs,
-- moving_opened: the open move to Redis, when it began, its jobs, 1 = Redis may know it;
-- moved: a move that has ended, until Redis knows it
CREATE TABLE meta(k TEXT PRIMARY KEY, v INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO meta(k, v) VALUES ('seq', 0), ('wheel', 0);

-- Rows are never removed: the owner keeps their numbers in memory. told_at: when the last alert mail was sent
CREATE TABLE topic(no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, told_at INTEGER) STRICT;

-- One row per live or dead job, and one per ended id (its last version) for history.retention.
-- id is a BLOB: compared byte by byte, and never cut at a NUL.
-- ctype: content type of the body; in an ended job that its first attempt delivered, that attempt.
-- extension: options of the job (src/core/extension.ts). owner_instance 0: the lease of a pulled job.
-- token: of the lease; of a dead letter the number that its death drew.
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
  ended_as INTEGER,
  extension BLOB
) STRICT;
CREATE UNIQUE INDEX job_key ON job(topic, id);
CREATE INDEX job_due ON job(due, version) WHERE state = 0;
CREATE INDEX job_ready ON job(prio, topic, due, version) WHERE state = 1;
-- Two, so that expired leases of processes are found without reading those of pulled jobs.
CREATE INDEX job_leased ON job(lease_until) WHERE state = 2 AND owner_instance > 0;
CREATE INDEX job_pulled ON job(lease_until) WHERE state = 2 AND owner_instance = 0;
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
`;
