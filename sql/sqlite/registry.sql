-- The registry's schema for SQLite, generated from src/registry/sql/schema/registry-schema.ts: sqlite3 registry.db < registry.sql
BEGIN;
CREATE TABLE IF NOT EXISTS migration (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  checksum TEXT NOT NULL,
  applied_at INTEGER NOT NULL -- epoch ms
);

-- 1: tables
CREATE TABLE registry (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  revision INTEGER NOT NULL,
  key_check TEXT -- a text encrypted with the key of the secrets
);
INSERT INTO registry (only, revision) VALUES (1, 0);
CREATE TABLE topic (
  name TEXT NOT NULL PRIMARY KEY,
  state TEXT NOT NULL, -- active, paused, offline
  settings TEXT NOT NULL, -- JSON
  secrets TEXT NOT NULL, -- JSON, the current one first, encrypted
  revision INTEGER NOT NULL, -- of its last change
  created_at INTEGER NOT NULL, -- epoch ms
  updated_at INTEGER NOT NULL,
  on_done TEXT NOT NULL DEFAULT '', -- topics that the settings name; empty: none
  on_dead TEXT NOT NULL DEFAULT ''
);
CREATE INDEX topic_revision ON topic (revision);
CREATE INDEX topic_on_done ON topic (on_done);
CREATE INDEX topic_on_dead ON topic (on_dead);
CREATE TABLE topic_tombstone (
  name TEXT NOT NULL PRIMARY KEY,
  revision INTEGER NOT NULL -- of the deletion
);
CREATE INDEX topic_tombstone_revision ON topic_tombstone (revision);
CREATE TABLE topic_stat (
  topic TEXT NOT NULL,
  name TEXT NOT NULL, -- pushed, delivered, retried, dead, cancelled
  total INTEGER NOT NULL,
  day INTEGER NOT NULL, -- yyyymmdd of today
  today INTEGER NOT NULL,
  PRIMARY KEY (topic, name)
);
CREATE TABLE token (
  name TEXT NOT NULL PRIMARY KEY,
  id TEXT NOT NULL UNIQUE, -- the readable part of the token
  digest TEXT NOT NULL, -- SHA-256 of the token, hexadecimal
  scopes TEXT NOT NULL, -- JSON list
  topics TEXT NOT NULL, -- JSON list of globs
  created_at INTEGER NOT NULL, -- epoch ms
  ends_at INTEGER, -- epoch ms; null: it does not end
  used_at INTEGER -- of the last known use
);
CREATE TABLE shard_list (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  revision INTEGER NOT NULL, -- of its last change
  list TEXT NOT NULL -- JSON, encrypted
);
CREATE TABLE registry_id (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  id TEXT NOT NULL -- 16 hexadecimal digits; in the mark of each Redis of this registry
);
CREATE TABLE session (
  id TEXT NOT NULL PRIMARY KEY, -- names it in lists
  cookie_digest TEXT NOT NULL UNIQUE, -- SHA-256, hexadecimal
  key_digest TEXT NOT NULL,
  name TEXT NOT NULL, -- of the token or link
  scopes TEXT NOT NULL, -- JSON list
  topics TEXT NOT NULL, -- JSON list of globs
  token_id TEXT, -- the session ends with this token
  signed_in_by TEXT NOT NULL, -- token, link, machine
  address TEXT NOT NULL, -- IP address of the sign-in
  browser TEXT NOT NULL, -- names of the browser and its system; empty: unknown
  created_at INTEGER NOT NULL, -- epoch ms
  used_at INTEGER NOT NULL,
  ends_at INTEGER NOT NULL -- at the latest
);
CREATE TABLE sign_in_link (
  digest TEXT NOT NULL PRIMARY KEY, -- SHA-256, hexadecimal
  name TEXT NOT NULL,
  scopes TEXT NOT NULL, -- JSON list
  topics TEXT NOT NULL, -- JSON list of globs
  token_id TEXT, -- the token that made it
  ends_at INTEGER NOT NULL -- epoch ms
);
CREATE TABLE operation (
  id TEXT NOT NULL PRIMARY KEY,
  record TEXT NOT NULL, -- JSON: what readers see
  work TEXT NOT NULL, -- JSON: what its process needs to go on
  is_open INTEGER NOT NULL, -- 1: a process has to work on it
  token INTEGER NOT NULL, -- rises with each claim
  holder TEXT, -- instance.incarnation of its process; null: released
  lease_until INTEGER NOT NULL, -- epoch ms
  created_at INTEGER NOT NULL
);
CREATE TABLE series (
  topic TEXT NOT NULL, -- empty: all topics together
  step INTEGER NOT NULL, -- seconds
  at INTEGER NOT NULL, -- epoch s of its beginning
  instance INTEGER NOT NULL,
  incarnation INTEGER NOT NULL, -- of the process that wrote it
  packed BLOB NOT NULL, -- counts and histograms
  PRIMARY KEY (topic, step, at, instance, incarnation)
) WITHOUT ROWID;
CREATE TABLE audit (
  id TEXT NOT NULL PRIMARY KEY, -- epoch ms and random digits, hexadecimal
  actor TEXT NOT NULL, -- name of a token, link or session
  address TEXT NOT NULL, -- IP address of the caller
  action TEXT NOT NULL, -- operationId of the call
  topic TEXT,
  job TEXT,
  detail TEXT, -- JSON: the difference, or filter and count
  status INTEGER NOT NULL, -- HTTP status of the answer
  code TEXT -- of the error
);
CREATE INDEX audit_topic ON audit (topic, id);
CREATE TABLE schedule (
  name TEXT NOT NULL PRIMARY KEY,
  record TEXT NOT NULL, -- JSON: what an operator sets
  revision INTEGER NOT NULL,
  next_at INTEGER, -- epoch ms; null: paused, or no instant follows
  made_at INTEGER, -- the last instant whose job was made
  claim_until INTEGER NOT NULL, -- epoch ms: a process makes the job of next_at
  claims INTEGER NOT NULL, -- of next_at, so far
  problem TEXT -- why the last job was not made
);
CREATE INDEX schedule_due ON schedule (next_at);
INSERT INTO migration (number, name, checksum, applied_at)
  VALUES (1, 'tables', '6ed16a6c805609172405d98e2af29a14bb49803cae7330d2d1ffec810a015d01', CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER));
COMMIT;
