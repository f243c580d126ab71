// Fixed limits of the Redis store: bounds that users cannot configure, each with its reason.

export const redisLimits = {
  /** How long a bucket without leases is not polled for expired ones. Shorter than a lease (`timeout` +
   *  `lease.margin`, by default at least 11 s); longer than whoLivesEveryMs and recoverEveryMs, whose polls
   *  for dead owners answer it too. */
  unleasedMs: 4_500,
  /** The same for leases of pulled jobs, which last pullLeaseMsMin at least and may be settled one
   *  recoverEveryMs late, on a Cluster also one pollCeiling (1 s): every second poll, or every third. */
  unpulledMs: 1_500,
  unpulledClusterMs: 2_500,
  /** Deadline for the clock of a server, after which it is left out: /readyz answers within readyMs. */
  clockMs: 500,
  /** Deadlines of a connection: to connect; silent with a reply pending; idle before its first keepalive
   *  probe. */
  connectMs: 3_000,
  /** For a dial with what follows it: the failure of a dial, which takes connectMs, comes first. */
  firstConnectMs: 3_500,
  /** To connect to one sentinel: behind one that is silent, the next has time within firstConnectMs. */
  sentinelMs: 1_000,
  silentMs: 8_000,
  keepAliveMs: 10_000,
  /** Between attempts to connect: 50, 100 … 2,000 ms, plus a random share up to this, against reconnects in
   *  lockstep. */
  reconnectMsMin: 50,
  reconnectMsMax: 2_000,
  reconnectJitter: 0.5,
  /** How often the connection for hints subscribes again (client/hints.ts). */
  resubscribeMs: 5_000,
  /** Deadline of the answer to a subscription; later the loops poll as without hints (client/hints.ts). */
  subscribedMs: 1_000,
  /** Share of maxmemory above which a Redis keeps no history; how often INFO is read for it. */
  nearlyFullShare: 0.9,
  memoryMs: 5_000,
  /** Redirections to another node of a Cluster per command; how often its slots are read, and the least time
   *  between two readings because a node fails: a failover takes the node timeout and 1–2 s. */
  redirectionsMax: 6,
  slotsMs: 30_000,
  slotsOnFailureMs: 1_000,
  /** Topics with their own capacity sent with each reserve: each costs the script 1 µs, and 3 µs more if
   *  its ready jobs are passed over. With more, only topics with ready jobs and capacity are sent. */
  capacitiesMax: 20,
  /** Lifetime of a copy of the rings, which is outdated after a server lost its last writes. Topics of each
   *  priority that one script reads for it (0.4 ms). Scripts per call for that: 100,000 topics. Topics of
   *  each priority that a reserve names at least, if there are any. */
  ringCopyMs: 5_000,
  ringPiece: 500,
  ringPiecesMax: 200,
  namedMin: 20,
  /** Items of one script call, and jobs of one step of bulk work: a script blocks all other callers, so some
   *  ms at most. */
  batchMax: 100,
  stepMax: 250,
  /** Reserve scripts per call while each only quarantines jobs, at most reserveMax of them. */
  reservesAgainMax: 4,
  /** How long a bucket that lost changes gives no job out before a healing begins: longer than one takes to
   *  notice the loss. Also the longest that a healing holds the jobs ahead of its next sign. */
  noteHoldMs: 60_000,
  /** Leases whose shard a process remembers: twice the most slots of a notifier. */
  leasesRememberedMax: 20_000,
  /** Ids drawn to find one whose home answers: with one of eight shards available, 1 in 5,000 calls finds
   *  none. */
  idDrawsMax: 64,
  /** Bodies up to this size are part of their job's record: every move reads the record, only reserve reads
   *  the body. */
  inlineBodyBytesMax: 1_024,
  /** How long the result of an examination is kept; how long a running one may go without a sign of life. */
  examinationKeptMs: 24 * 3_600_000,
  examinationBeatMs: 10_000,
  /** Length of a lease whose set was lost, from then on: about an attempt and its settlement. The owner can
   *  still finish its job. */
  relinkedLeaseMs: 60_000,
  /** Pause between two pieces of an examination; each takes 1–2 ms of the server. */
  examinationPauseMs: 2,
  /** Pieces of surveys: jobs of a scan (1.6 ms), topics of a horizon (15 counts each), dead letters with
   *  their last attempts. */
  scanPiece: 500,
  /** Jobs of one piece of a walk: some 0.3 ms, and at most 250 KB with the longest records. */
  walkPiece: 100,
  /** Topics of one countsOf: some 5 ms. */
  countsPiece: 500,
  horizonPiece: 50,
  deadPiece: 250,
  /** Pause between the steps of looking through a shard for jobs of earlier lists. */
  clearPauseMs: 5,
} as const;
