// Every bound of dq that a user cannot configure, with where its number comes from. A loop, queue, batch, body or wait
// without a number here (or an option in config/options.ts) is a mistake.

export const limits = {
  /** Job ids: 1–256 bytes of UTF-8; a URL path segment carries them. */
  idBytesMax: 256,
  /** Topic names are at most this many ASCII characters. */
  topicNameMax: 128,
  /** The longest delay of a push: 3650 days. */
  delayMsMax: 3650 * 86_400_000,
  /** Pushes of one batch (http-api.md, "Jobs"): ten calls to the store. */
  batchItemsMax: 1_000,
  /** Topics (http-api.md, "Topics"). */
  topicConcurrencyMax: 10_000,
  topicEmailsMax: 50,
  /** Callbacks per second that a topic may be held to. */
  topicRateMax: 100_000,
  /** Access tokens: 256 bits that nobody guesses, and a readable id of 48 that does not repeat among `tokensMax`. */
  tokenBytes: 32,
  tokenIdBytes: 6,
  /** Every server holds all of them. */
  tokensMax: 1_000,
  tokenTopicsMax: 50,
  /** How long a rotated secret signs beside the new one (http-api.md), and how many sign at most: rotations in a hurry cut the
   *  oldest off, a header of signatures stays short. */
  secretOverlapMs: 24 * 3_600_000,
  topicSecretsMax: 4,
  /** Bytes of a secret that dq makes: as long as the digest of HMAC-SHA256, longer keys add nothing. */
  secretBytesMade: 32,
  /** A callback reply is read up to here; Standard Webhooks replies are empty, rules look at small JSON. */
  replyBytesMax: 64 * 1024,
  /** Slow calls beside each slot. With 512 slots, 2,000 topics that begin to hang at once fit: a hanging call costs a socket
   *  and about 20 KB. */
  slowCallsPerSlot: 4,
  /** Calls to restricted topics, for each slot: 128 of 512 probe 2,000 topics within a minute when calls hang for 3 s. */
  probesPerSlot: 0.25,
  /** Share of the slots that only topics in good standing without a running call may take, and how many such topics a
   *  notifier remembers: the list travels to the store when the other slots are used up. */
  keptSlotsShare: 0.125,
  keptTopicsMax: 256,
  /** Finishing writes that travel to the store in one call: a transaction of 500 holds the other callers up for 10–20 ms. */
  finishBatchMax: 500,
  /** Attempt records kept with a job; older ones fall off. */
  attemptsKept: 10,
  /** Retry rule: source characters, nesting, nodes, steps of one path. */
  ruleCharsMax: 1024,
  ruleDepthMax: 32,
  ruleNodesMax: 200,
  rulePathStepsMax: 16,
  /** Strikes from which a job is called alone, and with which it is buried as poison. */
  strikesAlone: 2,
  strikesPoison: 5,
  /** A call starts only when its timeout plus this much of the lease is left. */
  leaseReserveMs: 2_000,
  /** Retry-After is obeyed up to this long. */
  retryAfterMsMax: 24 * 3_600_000,
  /** Keys of Standard Webhooks secrets, in bytes; the specification's own range. */
  secretBytesMin: 24,
  secretBytesMax: 64,
  /** A job id, the dead-letter calls and purges handle at most this many jobs per call. */
  bulkMax: 10_000,
  /** Entries of the history, and dead letters, that one call removes because their time is over: some 10 ms of a store that has
   *  other callers. */
  forgetMax: 1_000,
  expireMax: 500,
  /** Jobs that one promote moves; measured 94,000/s at 200 a transaction, and a larger step holds the others up. */
  promoteMax: 500,
  /** Jobs that one reserve takes at most (a reply frame stays bounded by reserveBytesMax too). */
  reserveMax: 250,
  reserveBytesMax: 8 * 1024 * 1024,
  /** Leases that one recover returns, and how often leases that ran out are looked for: a takeover after the death of a
   *  notifier that nobody saw is allowed 15 s beyond the timeout (guarantees.md, G3). */
  recoverMax: 500,
  recoverEveryMs: 1_000,
  /** A whole mail; twice this and the claims are still under the claim's time. */
  mailMs: 25_000,
  /** Pushes that travel to a store in one call, and their bytes (architecture.md, decision 13). */
  pushBatchMax: 100,
  pushBatchBytesMax: 1024 * 1024,
  /** One frame on the store's socket. */
  frameBytesMax: 17 * 1024 * 1024,
  /** A start with less is refused: a log in which settles can be written on a full disk (64 pages; with 14, a promote did not
   *  fit), the index of the registry's log (32 KiB), the records in run/. */
  startRoomBytes: 384 * 1024,
  /** A call to Redis without an answer by now is unknown. A fork for a snapshot or a slow fsync of its log takes hundreds of ms;
   *  whoever pushes is answered within 3 s. */
  redisCallMs: 2_500,
  /** pollCeiling, unless it is given: hints come on a connection of their own and are lost with it. */
  redisPollMs: 100,
  /** Buckets of a Cluster: each is in one node, so they are how far its jobs can be spread; each costs polls. */
  clusterBuckets: 32,
  /** How long a closing client waits for answers that are due. */
  redisCloseMs: 1_000,
  /** The longest alerts.window: a topic that was told of within it is remembered, though it holds nothing. */
  alertWindowMsMax: 24 * 3_600_000,
  /** How often shards are looked through for jobs of earlier lists, while there are any; and the pause between its pieces. */
  settleEveryMs: 60_000,
  settlePauseMs: 5,
  /** A registry file that somebody else has locked is tried again this often, for this long. */
  registryBusyStepMs: 10,
  registryBusyMs: 2_000,
  /** From asking for a connection to the last answer of a transaction; a commit on a busy disk takes 500 ms. */
  mysqlCallMs: 3_000,
  /** Counters travel to upkeep this often, and from there to the registry this often. */
  countersToUpkeepMs: 1_000,
  countersToRegistryMs: 5_000,
  /** Longest sleep of any loop: a stepped clock or a suspended machine costs at most this. */
  loopSleepMsMax: 1_000,
  /** Characters of one value, and of one line, in a log. */
  logValueMax: 1024,
  logLineMax: 16 * 1024,
  /** This many failures of a role within the window end the master, before the first ready or with none of it alive. */
  crashLoopFailures: 10,
  crashLoopWindowMs: 60_000,
  /** How long `dq reload` waits: for the callbacks of the reload before, for one reload that runs and for its own. */
  reloadAnswerMs: 300_000,
  storeCheckBytesPerMs: 4 * 1024,
  /** A worker's pulse: it reports its load, asks whether its master lives, shows its watchdog that it does. */
  pulseMs: 1_000,
  /** Counters (topic, day, name) that the master holds while dq-upkeep is away; more are dropped, and said to be. */
  countersHeldMax: 10_000,
  /** A draining worker that has not ended this much after its deadline is killed. */
  drainGraceMs: 2_000,
  /** sun_path holds 108 bytes; libuv cuts a longer path silently. */
  socketPathMax: 100,
  /** A configuration file longer than this is something else by mistake. */
  configFileCharsMax: 1024 * 1024,
  /** Descriptors of a notifier that are no callback: logs, store, cluster, libuv, resolver. Some 30 were counted. */
  descriptorsBesideSlots: 64,
  /** A request's header and whole time against slow clients, and how often they are looked at. */
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 15_000,
  connectionsCheckMs: 1_000,
  /** dq doctor: fewer descriptors leave a server little room for clients; less room is soon full; slower disks hold every push up
   *  for longer than its own work takes; a clock further behind its own files has been set back, and one further from the clock of
   *  Redis is a warning, in /readyz too: machines that are synchronised by NTP differ by milliseconds. */
  openFilesWanted: 4_096,
  roomWantedBytes: 1024 ** 3,
  syncSlowMs: 10,
  clockAheadMs: 2_000,
} as const;
