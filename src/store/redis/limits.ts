// Fixed limits of the Redis store: bounds that users cannot configure, each with its reason.

export const redisLimits = {
  /** A bucket of a Redis that had no lease is not asked again for one that ran out for so long: shorter than leases are (`timeout` +
   *  `lease.margin`, 11 s and more unless that was changed), longer than the pause between two questions for the leases of the dead
   *  (whoLivesEveryMs and recoverEveryMs), which answer it too. */
  unleasedMs: 4_500,
  /** A server whose clock is asked for and that takes longer is left out: /readyz answers within readyMs. */
  redisClockMs: 500,
  /** How long a connection to Redis may take, may say nothing while it owes an answer, and may be idle before its first probe. */
  redisConnectMs: 3_000,
  redisSilentMs: 8_000,
  redisKeepAliveMs: 10_000,
  /** Between attempts to reach a Redis that is away: 50, 100 … 2,000 ms, and up to such a share more, lest everybody comes at once. */
  redisReconnectMsMin: 50,
  redisReconnectMsMax: 2_000,
  redisReconnectJitter: 0.5,
  /** How often the connection for hints is asked whether it still is one. */
  redisHintPulseMs: 5_000,
  /** A Redis whose memory is used to more than this share of its maxmemory keeps no history; how often that is looked at. */
  redisTightShare: 0.9,
  redisMemoryMs: 5_000,
  /** A Cluster's refusals that name another node are followed so often; how often its slots are asked for anyway, and how often at
   *  most because a node fails: a failover takes its node timeout and a second or two. */
  redisRedirectionsMax: 6,
  redisSlotsMs: 30_000,
  redisSlotsOnFailureMs: 1_000,
  /** Topics with their own capacity sent with each reserve: each costs the script 1 µs, and 3 µs more where its ready
   *  jobs are passed over. Of more, only those that have ready jobs and room. */
  redisRoomsMax: 20,
  /** How long a process believes its copy of the rings, which a server that lost its last writes may have left behind; topics that
   *  one script reads for it, of each priority (0.4 ms); scripts that one call reads it with: 100,000 topics; and topics of each
   *  priority that a reserve names at least, if there are any. */
  redisRingCopyMs: 5_000,
  redisRingPiece: 500,
  redisRingPiecesMax: 200,
  redisNamedMin: 20,
  /** Items of one script call, and jobs of one step of bulk work: everybody else waits for a script; some ms at most. */
  redisBatchMax: 100,
  redisStepMax: 250,
  /** Reserves that one call sends while each meets nothing but what it sets aside: each sets aside reserveMax at most. */
  reservesAgainMax: 4,
  /** Leases whose shard a process remembers: twice what the slots of a notifier can be. */
  leasesRememberedMax: 20_000,
  /** Ids that are drawn to find one whose home answers: with one shard of eight it fails once in 5,000 times. */
  idDrawsMax: 64,
  /** Bodies up to here lie in the record of their job, others apart: every move reads the record, and only reserve the body. */
  inlineBodyBytesMax: 1_024,
  /** How long what an examination has found, or how far it is, is kept for who asks another process. */
  examinationKeptMs: 24 * 3_600_000,
  examinationPulseMs: 10_000,
  /** Between two pieces of an examination, which take 1–2 ms of the server each. */
  examinationPauseMs: 2,
} as const;
