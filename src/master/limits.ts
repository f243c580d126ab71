// Fixed limits of the master: bounds that users cannot configure, each with its reason.

export const masterLimits = {
  /** Restarts of a dead worker back off between these. */
  restartMsMin: 100,
  restartMsMax: 10_000,
  /** So many in a row that are not ready in time: 45 s, and in a machine that is merely slow the fourth would fare no better. */
  crashLoopHangs: 3,
  /** A worker that is not ready by now has failed to start. dq-store may have to recover and check its file, and has longer by
   *  the bytes of it: 4 MB/s, a disk of 1,000 reads a second and nothing cached (500 MB/s were measured from memory). */
  workerReadyMs: 15_000,
  storeReadyMs: 120_000,
  /** The first worker of every role of a reload must be ready by now, or nothing is changed (operations.md). */
  reloadReadyMs: 15_000,
  /** What a notifier of before has for its callbacks: the longest timeout of a topic and the settling of it. */
  reloadCallbacksMs: 62_000,
  /** 60 MB of topics take a process 1.3 s of a processor, and in a machine with ten times more to do than it can ten times as long. */
  registryReadBytesPerMs: 1024,
  /** Assumed size of a registry in MySQL, which the master does not ask: 100,000 topics. */
  registryInMysqlBytes: 64 * 1024 * 1024,
  /** How long upkeep and then dq-store have to finish in a stop, after the workers that use them are gone. Commits take
   *  up to 500 ms on a busy disk. */
  upkeepDrainMs: 5_000,
  storeDrainMs: 10_000,
  /** A server in a stop: the longest request, not the longest callback. */
  serverDrainMs: 10_000,
  /** Ticks of the master (one a second) without a message of a worker, after which it ends the worker: 5 ticks longer
   *  than the watchdog, whose log line names the cause. A frozen process has no watchdog, and its share of each topic would stay
   *  with it. About a lease of the default topic, so its jobs and its share come back together. */
  silentTicks: 20,
  silentStoreTicks: 65,
  /** How long a start waits for the lock of its data directory (two that meet need some ms to sort themselves out), and for the
   *  record of the master that holds it. */
  lockWaitMs: 200,
  lockHolderMs: 500,
  /** How long a start waits for the leftover workers that it has killed. */
  leftoverEndMs: 5_000,
  /** How long systemd-notify may take; it waits 5 s itself for systemd to have read. */
  serviceManagerMs: 10_000,
  /** Characters of the sentence for `systemctl status`; an argument of a process takes 128 KiB. */
  serviceStatusMax: 1_024,
  /** One request on the control socket, and how long a command waits for an answer to it. */
  controlLineBytesMax: 64 * 1024,
  controlCallMs: 5_000,
} as const;
