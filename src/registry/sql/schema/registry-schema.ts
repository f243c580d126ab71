// Defines the registry tables and their migration steps in SQLite (MySQL: mysql-schema.ts). Comments inside
// the statements are part of the released checksums.
//
// topic            one row per registered topic. settings and secrets are JSON documents: readers need all of
//                  it, no query looks inside, and a new setting needs no migration. on_done and on_dead
//                  repeat two settings, so that an index finds the topics that name another one. Secrets are
//                  encrypted (encryption.ts). Names compare byte by byte.
// topic_tombstone  deleted names that were not created again, for caches that missed the deletion
// topic_stat       per topic and counter: total, and count of the newest day. Rows only for existing topics,
//                  so the table is bounded. A row per day would need cleanup, and nothing shows older days.
// token            one row per access token: its digest, which does not reveal it, its rights, when it ends
//                  and was last used
// session          one row per console session: digests of its two halves, its rights, browser and end times
// sign_in_link     unused links that begin a session: their digests and rights
// operation        bulk work: its record and the state of its work as JSON, and the lease of its process
// series           per topic, step and writer what happened in the step (core/series.ts). Bounded by the
//                  times that rows are kept, and by upkeepLimits.seriesTopicsMax
// audit            changes by operators, at most limits.auditMax; ids begin with the time. The log files of
//                  kind audit have all of them
// schedule         recurring jobs: the settings as JSON, the next instant, and the claim of the process that
//                  makes its job. At most limits.schedulesMax
// shard_list       the shard list as one encrypted JSON document: always read whole; URLs hold passwords
// registry_id      id of this registry, drawn by the first process that opens it (registry-id.ts)
// registry         the counter of revisions, incremented by each change; key_check: a text encrypted with the
//                  key of the secrets, null while there is no key

import type { MigrationSchema, Schema } from './migrate.ts';
import { renderSchema } from './migrate.ts';

export interface RegistrySchema extends MigrationSchema {
  readonly registry: { only: number; revision: number; key_check: string | null };
  readonly topic: {
    name: string;
    state: string;
    settings: string;
    secrets: string;
    revision: number;
    created_at: number;
    updated_at: number;
    on_done: string;
    on_dead: string;
  };
  readonly topic_tombstone: { name: string; revision: number };
  readonly topic_stat: { topic: string; name: string; total: number; day: number; today: number };
  readonly token: {
    name: string;
    id: string;
    digest: string;
    scopes: string;
    topics: string;
    created_at: number;
    ends_at: number | null;
    used_at: number | null;
  };
  readonly session: {
    id: string;
    cookie_digest: string;
    key_digest: string;
    name: string;
    scopes: string;
    topics: string;
    token_id: string | null;
    signed_in_by: string;
    address: string;
    browser: string;
    created_at: number;
    used_at: number;
    ends_at: number;
  };
  readonly sign_in_link: {
    digest: string;
    name: string;
    scopes: string;
    topics: string;
    token_id: string | null;
    ends_at: number;
  };
  readonly operation: {
    id: string;
    record: string;
    work: string;
    is_open: number;
    token: number;
    holder: string | null;
    lease_until: number;
    created_at: number;
  };
  readonly series: {
    topic: string;
    step: number;
    at: number;
    instance: number;
    incarnation: number;
    /** MySQL: base64 */
    packed: string | Uint8Array;
  };
  readonly audit: {
    id: string;
    actor: string;
    address: string;
    action: string;
    topic: string | null;
    job: string | null;
    detail: string | null;
    status: number;
    code: string | null;
  };
  readonly schedule: {
    name: string;
    record: string;
    revision: number;
    next_at: number | null;
    made_at: number | null;
    claim_until: number;
    claims: number;
    problem: string | null;
  };
  readonly shard_list: { only: number; revision: number; list: string };
  readonly registry_id: { only: number; id: string };
}

export const registrySchema: Schema = {
  createTable: `CREATE TABLE IF NOT EXISTS migration (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  checksum TEXT NOT NULL,
  applied_at INTEGER NOT NULL -- epoch ms
)`,
  script: {
    begin: 'BEGIN;',
    end: 'COMMIT;',
    insert: 'INSERT',
    // unixepoch('subsec') needs SQLite 3.42.
    now: "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
  },
  migrations: [
    {
      number: 1,
      name: 'tables',
      statements: [
        `CREATE TABLE registry (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  revision INTEGER NOT NULL,
  key_check TEXT -- a text encrypted with the key of the secrets
)`,
        'INSERT INTO registry (only, revision) VALUES (1, 0)',
        `CREATE TABLE topic (
  name TEXT NOT NULL PRIMARY KEY,
  state TEXT NOT NULL, -- active, paused, offline
  settings TEXT NOT NULL, -- JSON
  secrets TEXT NOT NULL, -- JSON, the current one first, encrypted
  revision INTEGER NOT NULL, -- of its last change
  created_at INTEGER NOT NULL, -- epoch ms
  updated_at INTEGER NOT NULL,
  on_done TEXT NOT NULL DEFAULT '', -- topics that the settings name; empty: none
  on_dead TEXT NOT NULL DEFAULT ''
)`,
        'CREATE INDEX topic_revision ON topic (revision)',
        'CREATE INDEX topic_on_done ON topic (on_done)',
        'CREATE INDEX topic_on_dead ON topic (on_dead)',
        `CREATE TABLE topic_tombstone (
  name TEXT NOT NULL PRIMARY KEY,
  revision INTEGER NOT NULL -- of the deletion
)`,
        'CREATE INDEX topic_tombstone_revision ON topic_tombstone (revision)',
        `CREATE TABLE topic_stat (
  topic TEXT NOT NULL,
  name TEXT NOT NULL, -- pushed, delivered, retried, dead, cancelled
  total INTEGER NOT NULL,
  day INTEGER NOT NULL, -- yyyymmdd of today
  today INTEGER NOT NULL,
  PRIMARY KEY (topic, name)
)`,
        `CREATE TABLE token (
  name TEXT NOT NULL PRIMARY KEY,
  id TEXT NOT NULL UNIQUE, -- the readable part of the token
  digest TEXT NOT NULL, -- SHA-256 of the token, hexadecimal
  scopes TEXT NOT NULL, -- JSON list
  topics TEXT NOT NULL, -- JSON list of globs
  created_at INTEGER NOT NULL, -- epoch ms
  ends_at INTEGER, -- epoch ms; null: it does not end
  used_at INTEGER -- of the last known use
)`,
        `CREATE TABLE shard_list (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  revision INTEGER NOT NULL, -- of its last change
  list TEXT NOT NULL -- JSON, encrypted
)`,
        `CREATE TABLE registry_id (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  id TEXT NOT NULL -- 16 hexadecimal digits; in the mark of each Redis of this registry
)`,
        `CREATE TABLE session (
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
)`,
        `CREATE TABLE sign_in_link (
  digest TEXT NOT NULL PRIMARY KEY, -- SHA-256, hexadecimal
  name TEXT NOT NULL,
  scopes TEXT NOT NULL, -- JSON list
  topics TEXT NOT NULL, -- JSON list of globs
  token_id TEXT, -- the token that made it
  ends_at INTEGER NOT NULL -- epoch ms
)`,
        `CREATE TABLE operation (
  id TEXT NOT NULL PRIMARY KEY,
  record TEXT NOT NULL, -- JSON: what readers see
  work TEXT NOT NULL, -- JSON: what its process needs to go on
  is_open INTEGER NOT NULL, -- 1: a process has to work on it
  token INTEGER NOT NULL, -- rises with each claim
  holder TEXT, -- instance.incarnation of its process; null: released
  lease_until INTEGER NOT NULL, -- epoch ms
  created_at INTEGER NOT NULL
)`,
        `CREATE TABLE series (
  topic TEXT NOT NULL, -- empty: all topics together
  step INTEGER NOT NULL, -- seconds
  at INTEGER NOT NULL, -- epoch s of its beginning
  instance INTEGER NOT NULL,
  incarnation INTEGER NOT NULL, -- of the process that wrote it
  packed BLOB NOT NULL, -- counts and histograms
  PRIMARY KEY (topic, step, at, instance, incarnation)
) WITHOUT ROWID`,
        `CREATE TABLE audit (
  id TEXT NOT NULL PRIMARY KEY, -- epoch ms and random digits, hexadecimal
  actor TEXT NOT NULL, -- name of a token, link or session
  address TEXT NOT NULL, -- IP address of the caller
  action TEXT NOT NULL, -- operationId of the call
  topic TEXT,
  job TEXT,
  detail TEXT, -- JSON: the difference, or filter and count
  status INTEGER NOT NULL, -- HTTP status of the answer
  code TEXT -- of the error
)`,
        'CREATE INDEX audit_topic ON audit (topic, id)',
        `CREATE TABLE schedule (
  name TEXT NOT NULL PRIMARY KEY,
  record TEXT NOT NULL, -- JSON: what an operator sets
  revision INTEGER NOT NULL,
  next_at INTEGER, -- epoch ms; null: paused, or no instant follows
  made_at INTEGER, -- the last instant whose job was made
  claim_until INTEGER NOT NULL, -- epoch ms: a process makes the job of next_at
  claims INTEGER NOT NULL, -- of next_at, so far
  problem TEXT -- why the last job was not made
)`,
        'CREATE INDEX schedule_due ON schedule (next_at)',
      ],
    },
  ],
};

/** sql/sqlite/registry.sql, also printed by the command line. */
export function registrySchemaScript(): string {
  return renderSchema(
    "The registry's schema for SQLite, generated from src/registry/sql/schema/registry-schema.ts: sqlite3 registry.db < registry.sql",
    registrySchema,
  );
}
