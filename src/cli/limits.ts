// Limits of the command line that users cannot configure, each with its reason.

export const cliLimits = {
  /** `dq restart` waits this long for the start check; loading a worker may take half of it. */
  startCheckMs: 30_000,
  workerCheckMs: 15_000,
  /** Then it waits for the next daemon: half of storeReadyMs. */
  restartWaitMs: 60_000,
  /** `dq token add` without a daemon waits this long for the lock: longer than a rejected start keeps it. */
  tokenLockMs: 5_000,
  /** `dq start` and `dq status` wait this long for /readyz, which answers after at most readyMs. */
  readyAskMs: 5_000,
  /** `dq start -d` and `dq restart` wait this long for a daemon whose processes are up: it connects to Redis
   *  and MySQL, and reads a large registry. */
  readyWaitMs: 15_000,
  /** A daemon that is not ready looks at this interval whether it is. */
  readyLookMs: 2_000,
  /** `dq start` prints new reasons for the time in which a user reads its output. */
  readyReasonsMs: 10 * 60_000,
  /** A command waits this long for the API: a push takes up to storeAwayMs + storeCallMs, a deleted topic 2 s
   *  more. */
  apiCallMs: 30_000,
  /** Time for each address of the server's name: one lost packet costs a second. */
  addressMs: 2_000,
  /** dq bench: connections that one machine can hold beside the daemon's own. */
  benchConnectionsMax: 1_000,
  benchMsMax: 10 * 60_000,
  /** dq bench --e2e: at this rate no queue forms, so the lateness is that of the daemon. */
  benchLatenessRate: 100,
  /** dq bench --e2e: jobs are missing when none has come for this long. */
  benchSilenceMs: 10_000,
  /** `dq move` waits this long for the copy of the registry: as masterLimits.registryMoveMs. */
  registryMoveMs: 180_000,
  /** Memory of a job in Redis beyond its bytes in jobs.db, whose indexes take nearly as much: measured with
   *  5,000,000 jobs, 52. And the size of an empty jobs.db. */
  redisJobBytes: 60,
  jobsFileLeastBytes: 16 * 1024 * 1024,
  /** A command asks this often how far its operation is. */
  operationPollMs: 500,
  /** Interval of `dq status --watch`; the workers report once a second. */
  statusWatchMs: 1_000,
  /** `dq push --batch` sends this much per request: far below limits.batchBytes, and answered soon. */
  batchSendBytes: 1024 * 1024,
  /** `dq import` waits this long for one answer of the other system's Redis or MySQL. */
  sourceMs: 30_000,
  /** `dq import` asks dq for this many jobs at once: a second run after a kill asks for a whole batch. */
  importLooks: 16,
  /** `dq import` names this many jobs that stay behind, and counts the others. */
  importNamesMax: 20,
  /** Interval at which a command asks whether long work of the daemon has ended. */
  workPollMs: 500,
  /** Interval of progress lines where no terminal shows a bar. */
  progressEveryMs: 10_000,
  /** Longest standard input of a push: the maximum of limits.bodyBytes. */
  pushInputBytesMax: 16 * 1024 * 1024,
  /** `dq reload` waits this long: for the callbacks of the previous reload, one running reload and its own.
   *  With MySQL each has 80 s for its first workers, and as much for the others. */
  reloadAnswerMs: 600_000,
  /** dq pull --exec: one wait for a job; below the usual idle limits of proxies. */
  pullWaitMs: 30_000,
  /** Commands at once: each has a connection that waits. */
  pullCommandsMax: 100,
  /** Shortest time between two extensions of a lease: half of the shortest lease. */
  pullExtendMsMin: 500,
  /** A daemon that does not answer is called again after this time. */
  pullAgainMs: 1_000,
  /** The answer of a command is repeated for this long: longer than a restart of the daemon. */
  pullSettleMs: 120_000,
} as const;
