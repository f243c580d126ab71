// Fixed limits of the registry database: bounds that users cannot configure, each with its reason.

export const sqlLimits = {
  /** Page of topics, changes or statistics: about 5 ms of the process that also serves the job store. A row
   *  takes 600 bytes, at most 40 KB; a single row may exceed a page. */
  registryPageRows: 500,
  registryPageBytes: 512 * 1024,
  /** A changed registry.db is opened again when it has not changed for this time: a copy may be running. */
  registrySettledMs: 1_000,
  /** A registry.db that could not be opened for a reason that may end by itself, such as too many open files,
   *  is opened again after this time: rarely, because each time another dq-store starts. */
  registryAgainMs: 30_000,
  /** Topics of one read of series: those on one page of the console. */
  seriesTopicsMax: 51,
  /** Rows of one topic that a read of series returns: the points of an answer (apiLimits.seriesPointsMax), of
   *  seven writers. */
  seriesRowsMax: 10_000,
  /** Topics whose expired rows one write removes: some 2 ms. Rows of 200 topics are removed 20 minutes after
   *  their end. */
  seriesSweptTopics: 10,
  /** Different settings texts that a process caches to read topics, and the length of one: 2 MB of texts, and
   *  their objects. Uncached settings are only slower to read. */
  settingsKept: 1_000,
  settingsKeptChars: 2_000,
  /** `dq move` copies audit entries of this time a second time: an entry is written when its request has been
   *  answered, so after entries of later requests. Longer than a request takes. */
  auditLateMs: 600_000,
  /** Audit entries that one list examines: 20 ms; and that one call removes. */
  auditScanMax: 5_000,
  auditTrimMax: 500,
  /** The registry copy is rewritten when its appended changes exceed its size and this. */
  snapshotAppendBytesMin: 1024 * 1024,
  /** MySQL connections per process: one polls, one writes changes or statistics. */
  mysqlConnections: 2,
  /** Calls that wait for a connection; more are rejected. Up to 100 KiB each with the largest settings. */
  mysqlQueueMax: 100,
  /** Schema steps: each rebuilds tables of at most some thousand rows. */
  mysqlMigrateMs: 60_000,
  /** The last part of the copy of registry.db to MySQL: changes of the registry are rejected meanwhile. */
  mysqlMoveMs: 20_000,
  /** Wait for another process that runs a schema step. */
  mysqlMigrateLockS: 30,
  /** How long the server lets a transaction wait for a lock. Below mysqlCallMs, so that its answer arrives in
   *  time. */
  mysqlLockWaitS: 2,
  /** How long the server works on one statement; dq has closed the connection by then. */
  mysqlStatementS: 4,
  /** Locks of a frozen process are freed after this time. Every process sends statements more often. */
  mysqlIdleS: 20,
  /** How long the end of a process waits for the server to close its connections. */
  mysqlGoodbyeMs: 500,
  /** How long a start waits for an unresponsive MySQL; a refused connection fails at once. */
  mysqlStartMs: 1_000,
  /** Pages of the registry's WAL between checkpoints, and its length after one: topics and counters are
   *  small, and the disk may be too. */
  registryLogPagesMax: 64,
  registryWalBytesMax: 512 * 1024,
  /** A call of the journal: a batch of 1,000 rows takes some 60 ms; a busy disk takes longer. */
  journalCallMs: 10_000,
  /** Bytes of keys and bodies in one statement, unless one row has more: they become twice as many
   *  hexadecimal digits, and a packet has 4 MiB by default in MySQL 5.7. */
  journalStatementBytes: 1024 * 1024,
  /** Of a row in a statement, without body and attempt; and the statement's text. */
  journalRowBytes: 4 * 1024,
  /** Connections for readers of the journal, per process: people look at single jobs. */
  journalReaders: 1,
  /** Rows of one page of a read, and ids of one look-up. */
  journalPageRows: 1_000,
  /** `since` is at most so far ahead of MySQL's clock. */
  sinceAheadMs: 600_000,
  /** Bodies of one page of rows. */
  journalPageBytes: 8 * 1024 * 1024,
  /** A locked registry file is tried again at this interval, for limits.registryBusyMs. */
  registryBusyStepMs: 10,
} as const;
