// Fixed limits of logs and metrics: bounds that users cannot configure, each with its reason.

export const telemetryLimits = {
  /** Lines of the log files are gathered this long or up to this many characters, then written at once. */
  logFlushMs: 100,
  logBatchCharsMax: 64 * 1024,
  /** Lines that wait for a disk that does not answer; more are dropped and counted. Some seconds of the busiest log. */
  logBacklogCharsMax: 4 * 1024 * 1024,
  /** How often a log file is compared with what lies at its path. */
  logCheckMs: 1_000,
  /** What a daemon in the background prints: nothing as a rule, 500 deaths of the runtime with their traces at most. */
  outputBytesMax: 1024 * 1024,
  /** How long an ending process waits for its last lines. */
  logCloseMs: 1_000,
  /** Series that the master holds: many times what there is; topics that come and go leave some behind. */
  metricSeriesMax: 10_000,
} as const;
