// Defines the tables of registry-schema.ts for MySQL. Names are VARBINARY, because collations would find `a`
// under `A`; times and revisions are BIGINT. DDL ends a transaction in MySQL, so every statement is
// repeatable: an interrupted step runs again.
//
// Lengths: names of topics and tokens have at most 128 and 64 ASCII characters (core/topic/topic.ts,
// core/token.ts); 191 and 128 leave space and keep every key within the 767 bytes of the oldest row formats.

import { journalTables } from './journal-tables.ts';
import type { Schema } from './migrate.ts';
import { renderSchema } from './migrate.ts';

export const mysqlSchema: Schema = {
  createTable: `CREATE TABLE IF NOT EXISTS migration (
  number INT NOT NULL PRIMARY KEY,
  name VARCHAR(100) NOT NULL,
  checksum VARCHAR(64) NOT NULL,
  applied_at BIGINT NOT NULL -- epoch ms
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
  script: {
    // Overrides the settings of an interactive session.
    begin: "SET NAMES utf8mb4;\nSET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';",
    end: '',
    insert: 'INSERT IGNORE',
    now: 'CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)',
  },
  migrations: [
    {
      number: 1,
      name: 'tables',
      statements: [
        `CREATE TABLE IF NOT EXISTS registry (
  only INT NOT NULL PRIMARY KEY,
  revision BIGINT NOT NULL,
  key_check VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NULL -- a text encrypted with the key of the secrets
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        'INSERT IGNORE INTO registry (only, revision, key_check) VALUES (1, 0, NULL)',
        `CREATE TABLE IF NOT EXISTS topic (
  name VARBINARY(191) NOT NULL PRIMARY KEY,
  state VARCHAR(20) NOT NULL, -- active, paused, offline
  settings MEDIUMTEXT NOT NULL, -- JSON
  secrets TEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- JSON, the current one first, encrypted
  revision BIGINT NOT NULL, -- of its last change
  created_at BIGINT NOT NULL, -- epoch ms
  updated_at BIGINT NOT NULL,
  on_done VARBINARY(191) NOT NULL DEFAULT '', -- topics that the settings name; empty: none
  on_dead VARBINARY(191) NOT NULL DEFAULT '',
  KEY topic_revision (revision),
  KEY topic_on_done (on_done),
  KEY topic_on_dead (on_dead)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        `CREATE TABLE IF NOT EXISTS topic_tombstone (
  name VARBINARY(191) NOT NULL PRIMARY KEY,
  revision BIGINT NOT NULL, -- of the deletion
  KEY topic_tombstone_revision (revision)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        `CREATE TABLE IF NOT EXISTS topic_stat (
  topic VARBINARY(191) NOT NULL,
  name VARCHAR(20) NOT NULL, -- pushed, delivered, retried, dead, cancelled
  total BIGINT NOT NULL,
  day INT NOT NULL, -- yyyymmdd of today
  today BIGINT NOT NULL,
  PRIMARY KEY (topic, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        `CREATE TABLE IF NOT EXISTS token (
  name VARBINARY(128) NOT NULL PRIMARY KEY,
  id VARBINARY(64) NOT NULL, -- the readable part of the token
  digest VARCHAR(64) NOT NULL, -- SHA-256 of the token, hexadecimal
  scopes TEXT NOT NULL, -- JSON list
  topics MEDIUMTEXT NOT NULL, -- JSON list of globs
  created_at BIGINT NOT NULL, -- epoch ms
  ends_at BIGINT NULL, -- epoch ms; null: it does not end
  used_at BIGINT NULL, -- of the last known use
  UNIQUE KEY token_id (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        `CREATE TABLE IF NOT EXISTS shard_list (
  only INT NOT NULL PRIMARY KEY,
  revision BIGINT NOT NULL, -- of its last change
  list MEDIUMTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL -- JSON, encrypted
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        `CREATE TABLE IF NOT EXISTS registry_id (
  only INT NOT NULL PRIMARY KEY,
  id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL -- 16 hexadecimal digits; in the mark of each Redis of this registry
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        `CREATE TABLE IF NOT EXISTS session (
  id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, -- names it in lists
  cookie_digest VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- SHA-256, hexadecimal
  key_digest VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name VARCHAR(128) NOT NULL, -- of the token or link
  scopes TEXT NOT NULL, -- JSON list
  topics MEDIUMTEXT NOT NULL, -- JSON list of globs
  token_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL, -- the session ends with this token
  signed_in_by VARCHAR(20) NOT NULL, -- token, link, machine
  address VARCHAR(64) NOT NULL, -- IP address of the sign-in
  browser VARCHAR(64) NOT NULL, -- names of the browser and its system; empty: unknown
  created_at BIGINT NOT NULL, -- epoch ms
  used_at BIGINT NOT NULL,
  ends_at BIGINT NOT NULL, -- at the latest
  UNIQUE KEY session_cookie (cookie_digest)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        `CREATE TABLE IF NOT EXISTS sign_in_link (
  digest VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, -- SHA-256, hexadecimal
  name VARCHAR(128) NOT NULL,
  scopes TEXT NOT NULL, -- JSON list
  topics MEDIUMTEXT NOT NULL, -- JSON list of globs
  token_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL, -- the token that made it
  ends_at BIGINT NOT NULL -- epoch ms
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        `CREATE TABLE IF NOT EXISTS operation (
  id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  record MEDIUMTEXT NOT NULL, -- JSON: what readers see
  work MEDIUMTEXT NOT NULL, -- JSON: what its process needs to go on
  is_open INT NOT NULL, -- 1: a process has to work on it
  token BIGINT NOT NULL, -- rises with each claim
  holder VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL, -- instance.incarnation of its process; null: released
  lease_until BIGINT NOT NULL, -- epoch ms
  created_at BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        `CREATE TABLE IF NOT EXISTS series (
  topic VARBINARY(191) NOT NULL, -- empty: all topics together
  step INT NOT NULL, -- seconds
  at BIGINT NOT NULL, -- epoch s of its beginning
  instance BIGINT NOT NULL,
  incarnation BIGINT NOT NULL, -- of the process that wrote it
  packed TEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- counts and histograms
  PRIMARY KEY (topic, step, at, instance, incarnation)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        `CREATE TABLE IF NOT EXISTS audit (
  id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, -- epoch ms and random digits, hexadecimal
  actor VARBINARY(191) NOT NULL, -- name of a token, link or session
  address VARCHAR(64) NOT NULL, -- IP address of the caller
  action VARBINARY(64) NOT NULL, -- operationId of the call
  topic VARBINARY(191) NULL,
  job VARBINARY(1024) NULL,
  detail MEDIUMTEXT NULL, -- JSON: the difference, or filter and count
  status INT NOT NULL, -- HTTP status of the answer
  code VARCHAR(64) NULL, -- of the error
  KEY audit_topic (topic, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        ...journalTables,
        `CREATE TABLE IF NOT EXISTS leader (
  only INT NOT NULL PRIMARY KEY,
  instance BIGINT NOT NULL, -- that calls jobs, among those with standby; 0: none yet
  until BIGINT NOT NULL -- epoch ms by the clock of MySQL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        'INSERT IGNORE INTO leader (only, instance, until) VALUES (1, 0, 0)',
        `CREATE TABLE IF NOT EXISTS schedule (
  name VARBINARY(128) NOT NULL PRIMARY KEY,
  record MEDIUMTEXT NOT NULL, -- JSON: what an operator sets
  revision BIGINT NOT NULL,
  next_at BIGINT NULL, -- epoch ms; null: paused, or no instant follows
  made_at BIGINT NULL, -- the last instant whose job was made
  claim_until BIGINT NOT NULL, -- epoch ms: a process makes the job of next_at
  claims INT NOT NULL, -- of next_at, so far
  problem TEXT NULL, -- why the last job was not made
  KEY schedule_due (next_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        `CREATE TABLE IF NOT EXISTS leader_process (
  instance BIGINT NOT NULL,
  incarnation BIGINT NOT NULL, -- of a notifier that calls jobs while its instance leads
  until BIGINT NOT NULL, -- epoch ms by the clock of MySQL
  PRIMARY KEY (instance, incarnation)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
      ],
    },
  ],
};

/** sql/mysql/dq.sql, also printed by the command line. */
export function mysqlSchemaScript(): string {
  return renderSchema(
    'The registry of dq for MySQL 5.7, 8 and MariaDB 10.11, generated from src/registry/sql/schema/mysql-schema.ts. In its own database: source dq.sql',
    mysqlSchema,
  );
}
