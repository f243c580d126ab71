// Fixed limits of the master, each with its reason. Users cannot configure them.

export const masterLimits = {
  /** Time for the last messages of an exited process: they are in the kernel's buffer, and a master on a
   *  machine with ten times too much load reads them within it. */
  lastMessagesMs: 500,
  /** Least and greatest delay before a dead worker is started again, ms. */
  restartMsMin: 100,
  restartMsMax: 10_000,
  /** This many failures of a role within limits.crashLoopWindowMs end the master: before the first ready, or
   *  with no worker of it alive. */
  crashLoopFailures: 10,
  /** Workers in a row that are not ready in time: 45 s in total;
   *  on a slow machine a fourth would be no faster. */
  crashLoopHangs: 3,
  /** Time until a worker is ready; then its start has failed. dq-store may recover
   *  and check its file and gets longer: 4 MB/s, a disk of 1,000 reads a second
   *  without a cache (500 MB/s were measured from memory). */
  workerReadyMs: 15_000,
  storeReadyMs: 120_000,
  /** Less than a reload waits: a console that hangs has failed by then, and neither a start nor a reload
   *  depends on it. */
  consoleReadyMs: 10_000,
  storeCheckBytesPerMs: 4 * 1024,
  /** Time of a previous notifier for its callbacks: the longest timeout of a topic and the settle after
   *  it. */
  reloadCallbacksMs: 62_000,
  /** 60 MB of topics cost a process 1.3 s of processor time; on a machine with ten times too much load 13
   *  s. */
  registryReadBytesPerMs: 1024,
  /** Assumed size of a registry in MySQL, which the master does not read: 100,000 topics. */
  registryInMysqlBytes: 64 * 1024 * 1024,
  /** Time of dq-upkeep, then of dq-store, to finish in a stop, after the workers that use them. A commit
   *  takes up to 500 ms on a busy disk. */
  upkeepDrainMs: 5_000,
  storeDrainMs: 10_000,
  /** Time of a server in a stop: the longest request. */
  serverDrainMs: 10_000,
  /** Time of dq-console in a stop. Open pages hold connections, and a restart refuses pushes until dq-store
   *  has ended, which waits for all. */
  consoleDrainMs: 1_000,
  /** Time of a console that no page has used: only connections that send nothing are left. */
  consoleRestMs: 1_000,
  /** Connections that wait for a console to be ready, and how long: it needs a second, on a machine with too
   *  much load its whole time, and a second try. */
  consoleWaitingMax: 1_000,
  consoleWaitMs: 30_000,
  /** Ticks of the master (one a second) without a message from a worker, then it kills the worker, whose
   *  main loop is blocked or whose process is stopped. About a lease of the default topic: its jobs and its
   *  capacity return together. */
  silentTicks: 20,
  silentStoreTicks: 60,
  /** How long one try to lock a data directory waits: two starts at once need some ms. */
  lockWaitMs: 200,
  /** Tries of a start. A master writes its record some ms after it has locked the directory, or seconds where
   *  the machine pauses it. A command that holds the lock writes none. */
  lockTriesMax: 15,
  /** How long a start waits for the leftover workers that it killed. */
  leftoverEndMs: 5_000,
  /** Time limit of systemd-notify, which itself waits 5 s until systemd has read the message. */
  serviceManagerMs: 10_000,
  /** Characters of the status line for `systemctl status`;
   *  Linux limits an argument of a process to 128 KiB. */
  serviceStatusMax: 1_024,
  /** Size of a request on the control socket, and how long a command waits for its answer. */
  controlLineBytesMax: 64 * 1024,
  controlCallMs: 5_000,
  /** How long processes may take to answer a question (they need some ms): less than
   *  processLimits.masterAnswerMs, so that the answers of the others arrive. */
  askMs: 1_500,
  /** Copy of registry.db to MySQL: statistics and audit, while changes go on, then the rest in 20 s. */
  registryMoveMs: 180_000,
  /** The same for a question that names its time: a test call and the way to it. */
  askMsMax: 40_000,
  /** Questions that are open at once: those of as many open pages. */
  asksMax: 100,
  /** Progress of a reload that the console shows: a reload reports fewer than 20 lines, and a wrong
   *  configuration may name every option in one. */
  reloadLinesMax: 50,
  reloadLineCharsMax: 10_000,
} as const;

/** Flags of a process that is idle most of the time, and of all with `profile: small`: with V8's default of
 *  16 MB dq-console kept 18 MB of garbage after its start, for up to a minute. The build compiles code for
 *  them. */
export const smallYoungSpace: readonly string[] = ['--max-semi-space-size=1'];
