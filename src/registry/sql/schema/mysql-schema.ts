// The migration steps in MySQL: the tables of registry-schema.ts, those of the leader (ports/registry.ts)
// and of the journal. DDL ends a transaction in MySQL, so every statement is repeatable: an interrupted step
// runs again.

import { renderSchema, type Schema } from './migrate.ts';
import { createTables, tablesOfStep1 } from './registry-schema.ts';

/** Keys of 384 bytes need ROW_FORMAT=DYNAMIC in MySQL 5.7. */
const journalOptions = 'ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4';

export const journalTables: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS dq_job ( -- one row per id
  topic VARBINARY(128) NOT NULL,
  id VARBINARY(256) NOT NULL,
  version BIGINT NOT NULL,
  origin BIGINT NOT NULL,
  state TINYINT NOT NULL, -- 0 waiting, 3 dead, 4 done, 5 cancelled, 6 purged, 7 expired, 9 only an alert is known
  order_at BIGINT NOT NULL, -- epoch ms: due, death or end
  due_at BIGINT NOT NULL,
  failures INT NOT NULL,
  reason TINYINT NULL, -- of a death
  place VARBINARY(32) NOT NULL, -- shard id:bucket
  change_no BIGINT NOT NULL,
  ended_origin BIGINT NOT NULL, -- the highest origin that ended: its body is not kept
  alert_told BIGINT NOT NULL, -- newest version whose alert was settled
  body_origin BIGINT NOT NULL, -- the origin that the following columns, but standing, belong to
  accepted_at BIGINT NULL,
  priority TINYINT NULL,
  content_type VARBINARY(1024) NULL,
  extension BLOB NULL, -- options of the job
  body LONGBLOB NULL,
  standing BINARY(23) NOT NULL, -- version (7), 1 = ended (1), number (7), failures (2), order_at (6)
  PRIMARY KEY (topic, id),
  KEY dq_job_order (state, order_at, topic, id)
) ${journalOptions}`,
  `CREATE TABLE IF NOT EXISTS dq_job_log ( -- one row per change
  change_no BIGINT NOT NULL,
  place VARBINARY(32) NOT NULL,
  topic VARBINARY(128) NOT NULL,
  id VARBINARY(256) NOT NULL,
  version BIGINT NOT NULL,
  event VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  due_at BIGINT NOT NULL,
  process VARBINARY(64) NOT NULL,
  host VARBINARY(255) NOT NULL,
  attempt MEDIUMTEXT NULL, -- JSON
  PRIMARY KEY (change_no, place),
  KEY dq_job_log_job (topic, id)
) ${journalOptions}`,
  `CREATE TABLE IF NOT EXISTS dq_journal_stream ( -- what was shipped of each process
  instance BIGINT NOT NULL,
  incarnation BIGINT NOT NULL,
  segment INT NOT NULL,
  offset_at BIGINT NOT NULL,
  PRIMARY KEY (instance, incarnation)
) ${journalOptions}`,
  `CREATE TABLE IF NOT EXISTS dq_journal_mark ( -- the newest number that dq reported to Redis as shipped
  instance BIGINT NOT NULL,
  place VARBINARY(32) NOT NULL,
  number BIGINT NOT NULL,
  PRIMARY KEY (instance, place)
) ${journalOptions}`,
  `CREATE TABLE IF NOT EXISTS dq_journal (
  only_row TINYINT NOT NULL PRIMARY KEY,
  barrier BIGINT NOT NULL, -- each instance ships what its spool held when it read it
  since BIGINT NOT NULL -- epoch ms: jobs accepted before may have ended without a change
) ${journalOptions}`,
  'INSERT IGNORE INTO dq_journal (only_row, barrier, since) VALUES (1, 0, 0)',
  `CREATE TABLE IF NOT EXISTS dq_journal_instance (
  instance BIGINT NOT NULL PRIMARY KEY,
  host VARBINARY(255) NOT NULL,
  seen_at BIGINT NOT NULL, -- epoch ms
  barrier BIGINT NOT NULL, -- reached
  highest BIGINT NOT NULL, -- number that it knows
  spool_bytes BIGINT NOT NULL
) ${journalOptions}`,
  `CREATE TABLE IF NOT EXISTS dq_restore ( -- work that puts jobs back
  no BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  about VARBINARY(191) NOT NULL,
  note BIGINT NOT NULL,
  claimed_by BIGINT NULL, -- instance
  claimed_until BIGINT NOT NULL, -- epoch ms
  cursor_at TEXT NULL,
  counts TEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- JSON
  state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- open, done, failed
  begun_at BIGINT NOT NULL, -- epoch ms
  ended_at BIGINT NULL,
  UNIQUE KEY dq_restore_work (kind, about, note)
) ${journalOptions}`,
];

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
        ...createTables('mysql', ['registry']),
        'INSERT IGNORE INTO registry (only, revision, key_check) VALUES (1, 0, NULL)',
        ...createTables('mysql', tablesOfStep1),
        ...journalTables,
        `CREATE TABLE IF NOT EXISTS leader (
  only INT NOT NULL PRIMARY KEY,
  instance BIGINT NOT NULL, -- that calls jobs, among those with standby; 0: none yet
  until BIGINT NOT NULL -- epoch ms by the clock of MySQL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
        'INSERT IGNORE INTO leader (only, instance, until) VALUES (1, 0, 0)',
        ...createTables('mysql', ['schedule']),
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
