// Fixed limits of the command line: bounds that users cannot configure, each with its reason.

export const cliLimits = {
  /** How long `dq restart` waits for the check of a start, of which the attempt to load a worker may take half, and then for the
   *  next daemon: half of `storeReadyMs`. */
  startCheckMs: 30_000,
  workerCheckMs: 15_000,
  restartWaitMs: 60_000,
  /** `dq token add` without a daemon waits this long for the lock: longer than a start that is refused keeps it. */
  tokenLockMs: 5_000,
  /** `dq start` and `dq status` wait this long for /readyz, which gives up at readyMs and may come late on a busy machine. */
  readyAskMs: 5_000,
  /** A command waits this long for the API: a push may wait storeAwayMs, then storeCallMs; deleting a topic waits 2 s more. */
  apiCallMs: 30_000,
  /** So many syncs are measured; a tool that is asked may take so long. */
  doctorSyncs: 50,
  doctorToolMs: 3_000,
  /** dq bench: connections that this machine can hold beside the daemon's, and the longest run. At the rate lateness is the daemon's
   *  own, not that of a queue; a job that has not come so long after the last one is missing. */
  benchConnectionsMax: 1_000,
  benchMsMax: 10 * 60_000,
  benchLatenessRate: 100,
  benchSilenceMs: 10_000,
  /** How often `dq status --watch` looks; the workers report once a second. */
  statusWatchMs: 1_000,
  /** What `dq push --batch` sends at once: far below the smallest default of limits.batchBytes, and soon answered. */
  batchSendBytes: 1024 * 1024,
  /** How often a command asks whether a long work of the daemon has ended. */
  workPollMs: 500,
  /** How often long work says how far it is, where no terminal shows a bar. */
  progressEveryMs: 10_000,
  /** Longest reply of the API that a command holds: a job body of 16 MiB as base64, or escaped twofold. */
  apiReplyBytesMax: 64 * 1024 * 1024,
  /** Standard input of a push is read up to here: the largest that limits.bodyBytes can be set to. */
  pushInputBytesMax: 16 * 1024 * 1024,
  /** Connections that the callback receiver for trials holds; a notifier opens one per callback in flight. */
  sinkConnectionsMax: 2_000,
} as const;
