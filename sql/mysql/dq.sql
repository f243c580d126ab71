-- The registry of dq for MySQL 5.7, 8 and MariaDB 10.11, generated from src/registry/sql/schema/mysql-schema.ts. In its own database: source dq.sql
SET NAMES utf8mb4;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';
CREATE TABLE IF NOT EXISTS migration (
  number INT NOT NULL PRIMARY KEY,
  name VARCHAR(100) NOT NULL,
  checksum VARCHAR(64) NOT NULL,
  applied_at BIGINT NOT NULL -- epoch ms
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- 1: tables
CREATE TABLE IF NOT EXISTS registry (
  only INT NOT NULL PRIMARY KEY,
  revision BIGINT NOT NULL,
  key_check VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NULL -- a text encrypted with the key of the secrets
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
INSERT IGNORE INTO registry (only, revision, key_check) VALUES (1, 0, NULL);
CREATE TABLE IF NOT EXISTS topic (
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
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS topic_tombstone (
  name VARBINARY(191) NOT NULL PRIMARY KEY,
  revision BIGINT NOT NULL, -- of the deletion
  KEY topic_tombstone_revision (revision)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS topic_stat (
  topic VARBINARY(191) NOT NULL,
  name VARCHAR(20) NOT NULL, -- pushed, delivered, retried, dead, cancelled
  total BIGINT NOT NULL,
  day INT NOT NULL, -- yyyymmdd of today
  today BIGINT NOT NULL,
  PRIMARY KEY (topic, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS token (
  name VARBINARY(128) NOT NULL PRIMARY KEY,
  id VARBINARY(64) NOT NULL, -- the readable part of the token
  digest VARCHAR(64) NOT NULL, -- SHA-256 of the token, hexadecimal
  scopes TEXT NOT NULL, -- JSON list
  topics MEDIUMTEXT NOT NULL, -- JSON list of globs
  created_at BIGINT NOT NULL, -- epoch ms
  ends_at BIGINT NULL, -- epoch ms; null: it does not end
  used_at BIGINT NULL, -- of the last known use
  UNIQUE KEY token_id (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS shard_list (
  only INT NOT NULL PRIMARY KEY,
  revision BIGINT NOT NULL, -- of its last change
  list MEDIUMTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL -- JSON, encrypted
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS registry_id (
  only INT NOT NULL PRIMARY KEY,
  id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL -- 16 hexadecimal digits; in the mark of each Redis of this registry
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS session (
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
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS sign_in_link (
  digest VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, -- SHA-256, hexadecimal
  name VARCHAR(128) NOT NULL,
  scopes TEXT NOT NULL, -- JSON list
  topics MEDIUMTEXT NOT NULL, -- JSON list of globs
  token_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL, -- the token that made it
  ends_at BIGINT NOT NULL -- epoch ms
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS operation (
  id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  record MEDIUMTEXT NOT NULL, -- JSON: what readers see
  work MEDIUMTEXT NOT NULL, -- JSON: what its process needs to go on
  is_open INT NOT NULL, -- 1: a process has to work on it
  token BIGINT NOT NULL, -- rises with each claim
  holder VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL, -- instance.incarnation of its process; null: released
  lease_until BIGINT NOT NULL, -- epoch ms
  created_at BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS series (
  topic VARBINARY(191) NOT NULL, -- empty: all topics together
  step INT NOT NULL, -- seconds
  at BIGINT NOT NULL, -- epoch s of its beginning
  instance BIGINT NOT NULL,
  incarnation BIGINT NOT NULL, -- of the process that wrote it
  packed TEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- counts and histograms
  PRIMARY KEY (topic, step, at, instance, incarnation)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS audit (
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
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS dq_job ( -- one row per id
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
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS dq_job_log ( -- one row per change
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
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS dq_journal_stream ( -- what was shipped of each process
  instance BIGINT NOT NULL,
  incarnation BIGINT NOT NULL,
  segment INT NOT NULL,
  offset_at BIGINT NOT NULL,
  PRIMARY KEY (instance, incarnation)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS dq_journal_mark ( -- the newest number that dq reported to Redis as shipped
  instance BIGINT NOT NULL,
  place VARBINARY(32) NOT NULL,
  number BIGINT NOT NULL,
  PRIMARY KEY (instance, place)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS dq_journal (
  only_row TINYINT NOT NULL PRIMARY KEY,
  barrier BIGINT NOT NULL, -- each instance ships what its spool held when it read it
  since BIGINT NOT NULL -- epoch ms: jobs accepted before may have ended without a change
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;
INSERT IGNORE INTO dq_journal (only_row, barrier, since) VALUES (1, 0, 0);
CREATE TABLE IF NOT EXISTS dq_journal_instance (
  instance BIGINT NOT NULL PRIMARY KEY,
  host VARBINARY(255) NOT NULL,
  seen_at BIGINT NOT NULL, -- epoch ms
  barrier BIGINT NOT NULL, -- reached
  highest BIGINT NOT NULL, -- number that it knows
  spool_bytes BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS dq_restore ( -- work that puts jobs back
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
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS leader (
  only INT NOT NULL PRIMARY KEY,
  instance BIGINT NOT NULL, -- that calls jobs, among those with standby; 0: none yet
  until BIGINT NOT NULL -- epoch ms by the clock of MySQL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
INSERT IGNORE INTO leader (only, instance, until) VALUES (1, 0, 0);
CREATE TABLE IF NOT EXISTS schedule (
  name VARBINARY(128) NOT NULL PRIMARY KEY,
  record MEDIUMTEXT NOT NULL, -- JSON: what an operator sets
  revision BIGINT NOT NULL,
  next_at BIGINT NULL, -- epoch ms; null: paused, or no instant follows
  made_at BIGINT NULL, -- the last instant whose job was made
  claim_until BIGINT NOT NULL, -- epoch ms: a process makes the job of next_at
  claims INT NOT NULL, -- of next_at, so far
  problem TEXT NULL, -- why the last job was not made
  KEY schedule_due (next_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS leader_process (
  instance BIGINT NOT NULL,
  incarnation BIGINT NOT NULL, -- of a notifier that calls jobs while its instance leads
  until BIGINT NOT NULL, -- epoch ms by the clock of MySQL
  PRIMARY KEY (instance, incarnation)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
INSERT IGNORE INTO migration (number, name, checksum, applied_at)
  VALUES (1, 'tables', '2fa11cef7cd147d4cb3d3ea00ed95062f8775ca743710cd38492494ddcdadd88', CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED));

