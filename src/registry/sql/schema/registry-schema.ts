// The tables of the registry, and the steps that made them in SQLite (in MySQL: mysql-schema.ts).
//
// topic            one row per registered topic. settings and secrets are JSON documents: every reader wants a topic whole,
//                  nothing searches inside, and a new setting needs no migration; secrets are sealed (encryption.ts). Names
//                  compare byte for byte.
// topic_tombstone  names deleted and not created again, so that caches which slept through it can be told
// topic_stat       per topic and counter: the total, and what the newest counted day has; rows ⊆ topics, so the table is
//                  bounded. A row per day would need an agent that removes old ones, and nothing shows them.
// token            one row per access token: its digest, by which nobody can make it, and what it allows
// shard_list       the list of shards as one sealed JSON document: it is always read whole, and addresses hold passwords
// registry_id      which registry this is; drawn by whoever opens it first (registry-id.ts)
// registry         the one counter from which revisions come; bumped in the transaction of each change; key_check is a
//                  text sealed with the key of the secrets, null while there is no key

import type { LedgerSchema, Schema } from './migrate.ts';
import { renderSchema } from './migrate.ts';

export interface RegistrySchema extends LedgerSchema {
  readonly registry: { only: number; revision: number; key_check: string | null };
  readonly topic: {
    name: string;
    state: string;
    settings: string;
    secrets: string;
    revision: number;
    created_at: number;
    updated_at: number;
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
  };
  readonly shard_list: { only: number; revision: number; list: string };
  readonly registry_id: { only: number; id: string };
}

/** The step from which on secrets are sealed; those stored before it are sealed when it is there. */
export const sealedSince = 3;

export const registrySchema: Schema = {
  ledger: `CREATE TABLE IF NOT EXISTS migration (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  checksum TEXT NOT NULL,
  applied_at INTEGER NOT NULL -- epoch ms
)`,
  script: {
    begin: 'BEGIN;',
    end: 'COMMIT;',
    insert: 'INSERT',
    now: "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
  },
  migrations: [
    {
      number: 1,
      name: 'topics and statistics',
      statements: [
        `CREATE TABLE registry (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  revision INTEGER NOT NULL
)`,
        'INSERT INTO registry (only, revision) VALUES (1, 0)',
        `CREATE TABLE topic (
  name TEXT NOT NULL PRIMARY KEY,
  state TEXT NOT NULL, -- active, paused, offline
  settings TEXT NOT NULL, -- JSON
  secrets TEXT NOT NULL, -- JSON, the current one first
  revision INTEGER NOT NULL, -- of its last change
  created_at INTEGER NOT NULL, -- epoch ms
  updated_at INTEGER NOT NULL
)`,
        'CREATE INDEX topic_revision ON topic (revision)',
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
      ],
    },
    {
      number: 2,
      name: 'access tokens',
      statements: [
        `CREATE TABLE token (
  name TEXT NOT NULL PRIMARY KEY,
  id TEXT NOT NULL UNIQUE, -- the readable part of the token
  digest TEXT NOT NULL, -- SHA-256 of the token, hexadecimal
  scopes TEXT NOT NULL, -- JSON list
  topics TEXT NOT NULL, -- JSON list of globs
  created_at INTEGER NOT NULL -- epoch ms
)`,
      ],
    },
    {
      number: sealedSince,
      name: 'sealed secrets',
      statements: ['ALTER TABLE registry ADD COLUMN key_check TEXT'],
    },
    {
      number: 4,
      name: 'shards',
      statements: [
        `CREATE TABLE shard_list (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  revision INTEGER NOT NULL, -- of its last change
  list TEXT NOT NULL -- JSON, sealed
)`,
      ],
    },
    {
      number: 5,
      name: 'id of the registry',
      statements: [
        `CREATE TABLE registry_id (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  id TEXT NOT NULL -- 16 hexadecimal digits; in the mark of each Redis of this registry
)`,
      ],
    },
  ],
};

/** sql/sqlite/registry.sql, also printed by the command line. */
export function registrySchemaScript(): string {
  return renderSchema(
    "The registry's schema for SQLite, made from src/registry/sql/schema/registry-schema.ts: sqlite3 registry.db < registry.sql",
    registrySchema,
  );
}
