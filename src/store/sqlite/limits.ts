// Fixed limits of the embedded store: bounds that users cannot configure, each with its reason.

export const sqliteLimits = {
  /** Bulk work runs in steps: jobs per step, ms per step (a requeue writes 10 pages: 30–80 µs), pause
   *  after a step as a multiple of its duration, longest pause, ms per call (well below storeCallMs). A push
   *  waits for one step and its commit. Measured with CPU priority for the daemon beside other load, 200
   *  pushes/s during a requeue of 200,000 dead letters: push p99 9–11 ms with 50 jobs or 2 ms and a pause
   *  of twice the step; 28–164 ms with 100 jobs or 4 ms and an equal pause. */
  bulkStepMax: 50,
  bulkStepMs: 2,
  bulkPausePerStep: 2,
  bulkPauseMsMax: 50,
  bulkCallMs: 5_000,
  /** A backup or fsck stops checkpoints and is given up beyond this WAL size: the checkpoint after it would
   *  stop the store for seconds. A copy takes about 3 s per GB; the busiest store logs 50 MB/s. */
  frozenWalBytesMax: 512 * 1024 * 1024,
  frozenWalCheckMs: 100,
  /** Pieces of surveys, each about storeLimits.surveyStepMs: bodies and their bytes (0.5 s per 1,000,000 of
   *  200 bytes), ids, due times (45 ms per 1,000,000), dead letters with their last attempts (30 ms per
   *  10,000). */
  surveyBodies: 2_000,
  surveyBodyBytes: 1024 * 1024,
  surveyIds: 250,
  surveyDues: 20_000,
  surveyDead: 250,
  /** Jobs of one page for the mover: reading them takes about 3 ms. Attempts and bodies of a page are at most
   *  pushBatchBytesMax. */
  leavingPageMax: 500,
  /** Topic capacities that the owner keeps per client, about 100 bytes each; with more, every reserve sends
   *  all. */
  capacityTableMax: 200_000,
  /** Steps of the clock that move no lease, added up: less than lease.margin (10 s), so that an attempt still
   *  ends before its lease. */
  clockStepMs: 3_000,
  /** After a clock jump of more than clockJumpMs the embedded store removes nothing for clockHoldMs: time for
   *  NTP to correct it. clockJumpMs is half of the smallest dead.retention: a shorter jump makes no young
   *  entry too old. The store saves the time every clockNoteMs; a start further than clockJumpMs from it
   *  counts as a jump. A distance above the shortest retention makes every entry too old at once: then the
   *  hold is clockFarHoldMs, time for an operator who reads the warning. */
  clockJumpMs: 30 * 60_000,
  clockHoldMs: 10 * 60_000,
  clockFarHoldMs: 3_600_000,
  clockNoteMs: 60_000,
  /** Bytes of a body that a reserve reads together with its row; a longer one is read once it fits into the
   *  answer. limits.reserveMax bodies are 4 MiB. */
  joinedBodyMax: 16 * 1024,
  /** Leases that the owner keeps in memory, about 300 bytes each; further ones are read from the file. Calls
   *  of notifiers need a few thousand, jobs that consumers have pulled can be any number. */
  leasesKept: 50_000,
  /** Items and bytes per transaction. */
  groupItemsMax: 2_000,
  groupBytesMax: 8 * 1024 * 1024,
  /** How often caches read the registry of dq-store again. Its owner announces every change on the connection
   *  of the calls, and the client announces one after each connect. Polls each second were half of the calls
   *  that an idle dq-store got. */
  registryPollMs: 5_000,
  /** Calls wait this long for an unavailable store or a handover, then answer not_stored. */
  storeAwayMs: 5_000,
  /** Wait between attempts to connect to the store: 20, 40 … 200 ms. */
  storeReconnectMsStep: 20,
  storeReconnectMsMax: 200,
  /** Bytes of calls on the wire to the store; the rest waits and still counts as unsent. */
  storeUnderWayBytesMax: 1024 * 1024,
  /** Waits: of a closing client for its answers (and for an unavailable store at the end of the daemon); of
   *  an owner that hands over for its clients; of a new owner for the lock. */
  storeCloseMs: 1_000,
  storeHandoverMs: 2_000,
  storeLockMs: 1_000,
  /** Disk reserve: pages freed on a full disk, so that jobs can still finish. 16 MiB hold the alerts of
   *  40,000 dead letters. One eighth of a file system below 128 MiB: reserve and WAL leave three quarters for
   *  jobs. */
  diskReserveBytesMax: 16 * 1024 * 1024,
  diskReserveShare: 1 / 8,
  diskReserveBytesMin: 256 * 1024,
  /** It is created in transactions of this size: a few ms each. */
  diskReservePieceBytes: 1024 * 1024,
  /** It is restored when the free space exceeds it by this share. */
  diskReserveSlack: 1 / 4,
  /** Initial and usual length of the WAL, at most that of the disk reserve. Measured with 64 pushes per
   *  transaction: SQLite's 4 MiB write 15 % more bytes; 64 MiB 5 % fewer, but a start after a kill takes
   *  longer. */
  walBytesMax: 16 * 1024 * 1024,
  /** jobs.db grows by this part of the disk reserve, usually 1 MiB. Without steps a push in a group of 10
   *  costs 3 µs more of 22, in a group of 50 1.5 µs more of 11. */
  fileStepsPerReserve: 16,
  /** Fill level that starts a checkpoint; the rest is for the next transaction. */
  walCheckpointShare: 2 / 3,
  /** Jobs per call on a full disk, where the WAL may have no space for more. */
  diskFullStepMax: 50,
  /** Steps of diskFullStepMax history entries that a full disk removes per second. */
  diskFullForgetSteps: 20,
  /** Numbers in transactions that a power cut can undo: a checkpoint syncs the WAL at 2,730 pages, and a page
   *  has fewer than 100 rows. As many as a second of the clock has. A backup can undo more, so an open skips
   *  up to skippedNumbersMax, 17 s of the clock: it meets the lost number of a job with a chance of 1 in
   *  15,000,000, and 800,000,000 opens fit into the bits of a version. */
  lostNumbersMax: 1_000_000,
  skippedNumbersMax: 2 ** 24,
  /** Bytes of a nearly full disk that the WAL leaves to the records in run/ and the registry's WAL. */
  recordSpaceBytes: 64 * 1024,
  /** How often a restarted store checks an unusable disk. */
  diskAgainMs: 1_000,
  /** How often a store on a full disk checks for space. */
  diskReserveAgainMs: 1_000,
  /** A sent call without an answer is unknown after this time. Commits take up to 500 ms on a busy disk. */
  storeCallMs: 10_000,
  /** Pages of topics that dq-store keeps for the other processes of a start: 100,000 topics. */
  registryPagesKeptBytes: 96 * 1024 * 1024,
  registryPagesKeptMs: 5_000,
  /** Topics per page of counts: 1 ms. */
  countsPageTopics: 1_000,
  /** Due delayed jobs that one page of counts reads: 3 ms. Where all are of held topics, the next page goes
   *  on. */
  countsDelayed: 10_000,
  /** Durations of commits that dq-store keeps for their p99; sorting them takes 0.05 ms. */
  commitTimesKept: 500,
} as const;
