// Fixed limits of the embedded store: bounds that users cannot configure, each with its reason.

export const sqliteLimits = {
  /** Jobs of one step of bulk work of the embedded store, and how long a step may take (a requeue writes 10 pages: 30–80 µs): a
   *  push waits for one step and its commit. Then the pause after a step, as a multiple of the step's time, its upper bound, and how
   *  long a call goes on with steps, well below storeCallMs. Measured with 200,000 dead letters and 200 pushes/s: requeued in 29 to
   *  37 s with a push p99 of 9 to 11 ms. Steps of 4 ms with a pause of the same length took 17 s, with a push p99 of 28 to 164 ms. */
  bulkStepMax: 50,
  bulkStepMs: 2,
  bulkPausePerStep: 2,
  bulkPauseMsMax: 50,
  bulkCallMs: 5_000,
  /** While the store is copied or examined, its log is not merged into the file. Beyond this it is given up: merging would stop
   *  the store for seconds. A copy takes some 3 s per GB; the busiest store logs 50 MB in a second. */
  heldLogBytesMax: 512 * 1024 * 1024,
  heldLogCheckMs: 100,
  /** Capacity of topics that the owner keeps for one client by their changes: some 100 bytes each; with more, all are told anew. */
  roomTableMax: 200_000,
  /** The embedded store removes nothing by a clock that jumped by more than clockJumpMs, until it has stood for clockHoldMs: time
   *  for NTP to set it right. clockJumpMs is half of the smallest dead.retention: a shorter jump (a step of NTP, a paused machine)
   *  makes no young entry too old. It notes the time every clockNoteMs; a start further than clockJumpMs from the note is judged
   *  as a jump. A distance longer than the shortest retention makes every entry too old at once: then the hold is clockFarHoldMs,
   *  time for an operator who reads the warning. */
  clockJumpMs: 30 * 60_000,
  clockHoldMs: 10 * 60_000,
  clockFarHoldMs: 3_600_000,
  clockNoteMs: 60_000,
  /** One transaction of the embedded store takes at most this many items or bytes. */
  groupItemsMax: 2_000,
  groupBytesMax: 8 * 1024 * 1024,
  /** Calls wait this long for a store that is away or handing over, then answer not_stored. */
  storeAwayMs: 5_000,
  /** Between attempts to reach a store that is away: 20, 40 … 200 ms. */
  storeReconnectMsStep: 20,
  storeReconnectMsMax: 200,
  /** Bytes of calls on their way to the store at once; the rest waits where it still counts as unsent. */
  storeUnderWayBytesMax: 1024 * 1024,
  /** How long a closing client waits for answers (and one whose daemon ends for a store that is away), an owner that hands over for its clients, a new owner for the lock. */
  storeCloseMs: 1_000,
  storeHandoverMs: 2_000,
  storeLockMs: 1_000,
  /** Pages of the store that are set free on a full disk, so that jobs can still be finished: 16 MiB hold 40,000 dead letters'
   *  alerts. An eighth of a file system smaller than 128 MiB: reserve and log leave three quarters of it for jobs. */
  diskReserveBytesMax: 16 * 1024 * 1024,
  diskReserveShare: 1 / 8,
  diskReserveBytesMin: 256 * 1024,
  /** It is made in transactions of this size: a few ms each. */
  diskReservePieceBytes: 1024 * 1024,
  /** It is made again when there is room for so much more than itself. */
  diskReserveSlack: 1 / 4,
  /** What the log is long from the start, if the reserve is. Longer saves little: SQLite's 4 MiB write 15 % more bytes, 64 MiB
   *  5 % fewer (measured, 64 pushes a transaction), and make the start after a kill longer. */
  logBytesMax: 16 * 1024 * 1024,
  /** It is carried into the file when it is so full; the rest is for the transaction that comes then. */
  logShareFull: 2 / 3,
  /** Jobs that one call moves, ends or claims on a full disk, where the log may have no room for more. */
  tightStepMax: 50,
  /** So often within a second the oldest so many entries of the history are removed there. */
  tightForgetSteps: 20,
  /** What the log leaves of the room on a nearly full disk: the records in run/, the registry's log. */
  recordRoomBytes: 64 * 1024,
  /** How often a store that comes back to a disk that cannot be used looks at it again. */
  diskAgainMs: 1_000,
  /** How often a store on a full disk looks for room. */
  diskReserveAgainMs: 1_000,
  /** A call that was sent and has no answer by now is unknown. Commits take up to 500 ms on a busy disk. */
  storeCallMs: 10_000,
  /** Pages that dq-store keeps for the other processes of a start, which ask for the same ones a moment later: 100,000 topics. */
  registryPagesKeptBytes: 96 * 1024 * 1024,
  registryPagesKeptMs: 5_000,
  /** Topics with jobs in one answer of the embedded store's counts: 1 ms of it. */
  countsPageTopics: 1_000,
} as const;
