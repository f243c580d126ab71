// Bounds of logs and metrics that users cannot configure, each with its reason.

export const telemetryLimits = {
  /** Characters of one log line. */
  logLineMax: 16 * 1024,
  /** Log lines are written together after this long or this many characters. */
  logFlushMs: 100,
  logBatchCharsMax: 64 * 1024,
  /** Characters of lines that wait for a stuck disk: some seconds of the busiest log. dq drops and counts
   *  more. */
  logBacklogCharsMax: 4 * 1024 * 1024,
  /** PIPE_BUF of Linux: a pipe takes so many bytes of one process in one piece. */
  pipeWriteMax: 4096,
  /** Interval of checking that the open log file is still the one at its path. */
  logCheckMs: 1_000,
  /** Output of a background daemon: usually nothing; 500 crashes of the runtime with their traces fit. */
  outputBytesMax: 1024 * 1024,
  /** An ending process waits this long for its last lines. */
  logCloseMs: 1_000,
  /** Series that the master holds: many times the usual number; deleted topics leave some behind. */
  metricSeriesMax: 10_000,
} as const;
