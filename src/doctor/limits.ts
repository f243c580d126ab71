// Limits of the checks of `dq doctor` that users cannot configure, each with its reason.

export const doctorLimits = {
  /** The console shows the findings so far after this time: a reader waits no longer, and a MySQL and a Redis
   *  that are unavailable take 5 s each. */
  runMs: 15_000,
  /** Disk syncs that are measured. */
  syncs: 50,
  /** Time for a tool like timedatectl. */
  toolMs: 3_000,
  /** A warning below these: fewer open files leave a server little room for clients. */
  openFilesWanted: 4_096,
  freeBytesWanted: 1024 ** 3,
  /** A slower fsync delays every push by more than dq's own work. */
  syncSlowMs: 10,
} as const;
