// Fixed limits of the registry database: bounds that users cannot configure, each with its reason.

export const sqlLimits = {
  /** One page of topics, of their changes or statistics: some 5 ms of the process that serves the job store too. A row takes 600
   *  bytes, 40 KB at most; a single one may be longer than a page. */
  registryPageRows: 500,
  registryPageBytes: 512 * 1024,
  /** Different settings that a process keeps to read topics by, and the length of one: 2 MB of texts, and their objects. Settings
   *  that it has not kept are only read more slowly. */
  settingsKept: 1_000,
  settingsKeptChars: 2_000,
  /** The copy of a registry in MySQL is written as a whole again when its appended changes are longer than it, and so long. */
  snapshotAppendBytesMin: 1024 * 1024,
  /** Connections of one process to MySQL: one that polls, one that changes something or records statistics. */
  mysqlConnections: 2,
  /** Calls that wait for one of them: more are refused at once. Some 100 KiB each with a topic's settings at their largest. */
  mysqlQueueMax: 100,
  /** Steps of the schema: each rebuilds tables of at most some thousand rows. */
  mysqlMigrateMs: 60_000,
  /** How long one step of the schema waits for another process that makes it. */
  mysqlMigrateLockS: 30,
  /** How long the server lets a transaction wait for another one's lock. Below mysqlCallMs, so that its answer still counts. */
  mysqlLockWaitS: 2,
  /** How long the server works on one statement; dq has hung up by then. */
  mysqlStatementS: 4,
  /** What a frozen process has locked, others get back after this long. Every process asks more often than that. */
  mysqlIdleS: 20,
  /** How long the end of a process waits for the server's end of its connections. */
  mysqlGoodbyeMs: 500,
  /** How long a start waits for a MySQL that does not answer; one that refuses connections costs nothing. */
  mysqlStartMs: 1_000,
  /** Pages of the registry's log between checkpoints, and what it is cut back to: topics and counters are small, and so may
   *  the disk be. */
  registryLogPagesMax: 64,
  registryWalBytesMax: 512 * 1024,
} as const;
