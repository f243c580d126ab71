// Every bound of dq that a user cannot configure, with where its number comes from. A loop, queue, batch, body or wait
// without a number here (or an option in config/options.ts) is a mistake.

export const limits = {
  /** Job ids: 1–256 bytes of UTF-8; a URL path segment carries them. */
  idBytesMax: 256,
  /** Decoded characters of a path segment: beyond them nothing is a topic or an id, and the router looks no further. */
  paramLengthMax: 1_024,
  /** Topic names are at most this many ASCII characters. */
  topicNameMax: 128,
  /** "did you mean" of a topic that does not exist: topics looked at (1 ms), of them compared letter by letter (2 µs each), and
   *  such answers a second of one server. Together below 5 % of a core, however many requests name a wrong topic. */
  suggestLooks: 20_000,
  suggestDistances: 1_000,
  suggestPerSecond: 10,
  /** The longest delay of a push: 3650 days. */
  delayMsMax: 3650 * 86_400_000,
  /** Content types are stored with the job and sent on: visible ASCII, at most this long. */
  contentTypeMax: 256,
  /** Header block of a request to the intake, as Node counts it. */
  headerBytesMax: 16 * 1024,
  /** JSON bodies of the API (topics, filters); the largest is bulkMax ids of some 400 bytes each. */
  apiBodyBytesMax: 4 * 1024 * 1024,
  /** Pushes of one batch (http-api.md, "Jobs"): ten calls to the store. */
  batchItemsMax: 1_000,
  /** Bodies that arrive in pieces, as far as they have come: of single jobs one server holds so many bytes, four of the largest
   *  that limits.bodyBytes can allow. Of batches, until they are answered, and of the API's JSON: so many of the largest of each. */
  jobBodiesHeldBytesMax: 64 * 1024 * 1024,
  batchesHeldMax: 4,
  /** What one read of a socket brings at most: a shorter body is not waited for. */
  socketReadBytes: 64 * 1024,
  /** Pushes of all batches of a server that are with the store at once, and their bytes: a push of its own waits behind so much,
   *  one transaction, and never behind whole batches. Of small bodies that is one batch. */
  batchFeedItemsMax: 1_000,
  batchFeedBytesMax: 4 * 1024 * 1024,
  /** Items of one page: without `limit`, and the most that may be asked for. */
  pageItems: 100,
  pageItemsMax: 1_000,

  /** Topics (http-api.md, "Topics"). */
  topicLabelMax: 200,
  callbackUrlMax: 2_048,
  topicHeadersMax: 16,
  topicHeaderValueMax: 1_024,
  topicTimeoutMsMin: 100,
  topicTimeoutMsMax: 60_000,
  topicOkStatusMax: 50,
  topicAttemptsMax: 100,
  topicConcurrencyMax: 10_000,
  topicJitterMax: 0.5,
  topicEmailsMax: 50,
  /** Callbacks per second that a topic may be held to. */
  topicRateMax: 100_000,
  /** A topic held to a rate may catch up on this much of it at once: shorter than a receiver notices, long enough to reserve
   *  a batch and not single jobs at thousands a second. */
  rateBurstMs: 100,
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
  /** Bytes of a reply that an attempt record keeps, and characters of it that a log line shows. */
  replyExcerptMax: 1024,
  /** Characters of the reply to a successful attempt that are kept: there is one with every delivered job for history.retention,
   *  and what acknowledges is seldom longer. */
  deliveredExcerptMax: 100,
  /** A receiver that has not accepted a connection by now (lookup and TLS included) is given up as `connect`, also where its
   *  topic's timeout is longer; undici's own default. */
  connectMsMax: 10_000,
  /** Deadline of a host name look-up; then the attempt fails as `dns`. Longer than 5 s, after which glibc asks the next
   *  name server; shorter than connectMsMax. */
  lookupMs: 6_000,
  /** The same for a name that had no answer the last time: long enough for a name server that is back, and a slot is free again
   *  soon. */
  lookupAgainMs: 1_500,
  /** A call waits this long for a look-up that waits for a thread. Then the job is released; the look-up stays queued, and the
   *  topic is called again after its turn. */
  lookupTurnMs: 1_500,
  /** How often a topic whose look-up is queued is checked, so at most one release a second and topic. Shorter than
   *  lookupFailedMs, so that the next call gets the result. Checks within the second time are one. */
  lookupPauseMs: 1_000,
  lookupPauseStepMs: 100,
  /** The probe before it: a packet is sent again after the first time, and then to the next server. The whole probe is given
   *  up after the second. */
  lookupPacketMs: 1_000,
  lookupProbeMs: 3_000,
  /** A look-up that takes longer occupies a thread that others need. Answers of healthy resolvers take 200 ms at most. */
  lookupSlowMs: 1_000,
  /** Look-ups by the system's resolver in use at once up to which a name of this rank starts one (name-lookups.ts). */
  lookupThreads: { silent: 2, new: 4, good: 6 },
  /** How long an answer is used: a burst of connections costs one look-up, and a change is followed at once. */
  lookupFreshMs: 5_000,
  /** How long a call waits for a newer answer while there is an old one, and how long an old one may be used. A name server
   *  that restarts or fails over is back by then; RFC 8767 allows days. */
  lookupPatienceMs: 500,
  lookupOldMs: 300_000,
  /** Cache time of a failed look-up: of a name that was refused, of one that had no answer. */
  lookupFailedMs: 2_000,
  lookupSilentMs: 5_000,
  /** Host names that are remembered, 1 KiB each at most. */
  lookupNamesMax: 10_000,
  /** How often hosts and resolv.conf are checked for a change, and the size up to which they are read. */
  lookupFileMs: 1_000,
  lookupFileBytesMax: 4 * 1024 * 1024,
  /** A callback connection takes no request after this age, so that a changed DNS record is followed. One handshake
   *  a minute costs little. */
  connectionAgeMsMax: 60_000,
  /** Idle callback connections are kept this long, or as long as the receiver says up to the second number. Short, because a
   *  request that meets a closing connection fails as `reset`; long enough for a busy endpoint never to dial. */
  callbackKeepAliveMs: 3_000,
  callbackKeepAliveMsMax: 10_000,
  /** A topic is ailing after this many attempts in a row that ended in connect, tls, dns or timeout, and then holds at most so
   *  many slots of a notifier, until an attempt succeeds (architecture.md, decision 7). */
  ailingAttempts: 10,
  ailingCallsMax: 2,
  /** An origin is ailing after ailingAttempts as well; then its restricted topics hold this many probes in total. */
  ailingOriginCallsMax: 8,
  /** A call that runs for longer leaves its slot for the slow account: above the p99 of usual receivers, and two waves of
   *  newly hanging topics delay a healthy topic by less than 2 s. */
  slowCallMs: 500,
  /** The ages of running calls are compared with it at most this often. */
  slowCallStepMs: 20,
  /** Slow calls beside each slot. With 512 slots, 2,000 topics that begin to hang at once fit: a hanging call costs a socket
   *  and about 20 KB. */
  slowCallsPerSlot: 4,
  /** Calls to restricted topics, for each slot: 128 of 512 probe 2,000 topics within a minute when calls hang for 3 s. */
  probesPerSlot: 0.25,
  /** While there are more restricted topics than probes, other topics have their turn after this long. */
  probeTurnMs: 100,
  /** Share of the slots that only topics in good standing without a running call may take, and how many such topics a
   *  notifier remembers: the list travels to the store when the other slots are used up. */
  keptSlotsShare: 0.125,
  keptTopicsMax: 256,
  /** With a smaller share of the slots free, topics in good standing without a running call are asked for first, this often. */
  calmShare: 0.75,
  keptFirstMs: 50,
  /** Calls of topics without a result: while so many are young, one reserve brings no more. Each opens a connection, 0.3 ms of
   *  the event loop. */
  untriedAtOnce: 64,
  /** Finishing writes that travel to the store in one call: a transaction of 500 holds the other callers up for 10–20 ms. */
  finishBatchMax: 500,
  /** A finishing write without an answer is sent again after this long. */
  finishAgainMs: 200,
  /** What a drain waits, beyond its deadline, for the answers to its last finishing writes: a commit on a busy disk may take
   *  this long. */
  lastFinishMs: 2_000,
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
  /** How long suspects are called one after another while others wait, and what a reserve between them takes: one turn of the
   *  wheel, so that it shows whether any priority waits; all but one of them are handed back. */
  silenceMs: 100,
  silenceReserveMax: 10,
  /** How long the room that a reserve was promised is kept from the other partitions of the store: what a lost hint may cost. An
   *  answer takes 1 ms as a rule; of one that takes longer, what has no room any more is handed back. */
  shareMs: 100,
  /** A call starts only when its timeout plus this much of the lease is left. */
  leaseReserveMs: 2_000,
  /** Retry-After is obeyed up to this long. */
  retryAfterMsMax: 24 * 3_600_000,
  /** A backoff's own ladder: steps, and the longest single wait of a ladder or formula (http-api.md, `backoff`). */
  backoffStepsMax: 50,
  backoffStepMsMax: 10 * 86_400_000,
  /** Growth of an exponential backoff; from 100 on the second wait is the cap anyway. */
  backoffFactorMax: 100,

  /** Keys of Standard Webhooks secrets, in bytes; the specification's own range. */
  secretBytesMin: 24,
  secretBytesMax: 64,
  /** A job id, the dead-letter calls and purges handle at most this many jobs per call. */
  bulkMax: 10_000,
  /** Jobs that leave in one transaction while a topic is cleared. SQLite walks every page of a body that it frees: 3,000 bodies of
   *  256 KiB took 1.1 s from memory, and everybody else waits meanwhile. */
  purgeStepMax: 250,
  /** Jobs of one step of bulk work of the embedded store, and how long a step may take (a requeue writes 10 pages: 30–80 µs): a
   *  push waits for one step and its commit. Then the pause after a step, as a multiple of the step's time, its upper bound, and how
   *  long a call goes on with steps, well below storeCallMs. Measured with 200,000 dead letters and 200 pushes/s: requeued in 29 to
   *  37 s with a push p99 of 9 to 11 ms. Steps of 4 ms with a pause of the same length took 17 s, with a push p99 of 28 to 164 ms. */
  bulkStepMax: 50,
  bulkStepMs: 2,
  bulkPausePerStep: 2,
  bulkPauseMsMax: 50,
  bulkCallMs: 5_000,
  /** What one call that removes a topic spends on its jobs: some 50,000 of them; commands and proxies wait for 30 s. */
  purgeCallMs: 10_000,

  /** How often dq-upkeep looks for removals of topics that were cut off, and after which time one is: it waits for topicChangeMs and two
   *  answers of the store (storeCallMs each). */
  removalCheckMs: 5_000,
  removalStaleMs: 30_000,

  /** While the store is copied or examined, its log is not merged into the file. Beyond this it is given up: merging would stop
   *  the store for seconds. A copy takes some 3 s per GB; the busiest store logs 50 MB in a second. */
  heldLogBytesMax: 512 * 1024 * 1024,
  heldLogCheckMs: 100,
  /** Problems of one kind that an examination shows. */
  fsckExamples: 5,
  /** Jobs that one search looks at, because a filter by state has no index of its own: 3 ms of the store as a rule, 20 ms where
   *  each lies on a page that has to be read.  */
  searchRowsMax: 2_500,
  /** Entries of the history, and dead letters, that one call removes because their time is over: some 10 ms of a store that has
   *  other callers. */
  forgetMax: 1_000,
  expireMax: 500,
  /** Jobs that one promote moves; measured 94,000/s at 200 a transaction, and a larger step holds the others up. */
  promoteMax: 500,
  /** Jobs that one reserve takes at most (a reply frame stays bounded by reserveBytesMax too). */
  reserveMax: 250,
  reserveBytesMax: 8 * 1024 * 1024,
  /** Capacity of topics that the owner keeps for one client by their changes: some 100 bytes each; with more, all are told anew. */
  roomTableMax: 200_000,
  /** A notifier looks for the room that most topics share again when twice as many differ from it as at the last time, and so many. */
  plannedAnew: 100,
  /** Topics whose capacity at rest changed since the base of all reserves was made: each costs a reserve 0.5 µs. With more, a new
   *  base is made: 2 ms for 5,000 topics, at both ends. */
  changedRoomsMax: 64,
  /** Leases that one recover returns, and how often leases that ran out are looked for: a takeover after the death of a
   *  notifier that nobody saw is allowed 15 s beyond the timeout (guarantees.md, G3). */
  recoverMax: 500,
  recoverEveryMs: 1_000,
  /** A bucket of a Redis that had no lease is not asked again for one that ran out for so long: shorter than leases are (`timeout` +
   *  `lease.margin`, 11 s and more unless that was changed), longer than the pause between two questions for the leases of the dead
   *  (whoLivesEveryMs and recoverEveryMs), which answer it too. */
  unleasedMs: 4_500,
  /** A store that was not asked to recover for longer than the first was away, or so slow that its holders could not settle
   *  (recoverEveryMs and a commit of 2 s are none). For so long after it nothing is taken back by its time: notifiers are connected
   *  again within storeReconnectMsMax, and send again what had no answer after finishAgainMs. */
  recoverAwayMs: 3_000,
  recoverHoldMs: 5_000,
  /** How often upkeep asks which notifiers live, for a takeover within 5 s where the message about a death was lost; and how
   *  old an answer may be: two restarts of a notifier take longer. */
  whoLivesEveryMs: 3_000,
  livingFreshMs: 500,
  /** How often incidents are looked for that are to be mailed. */
  alertPollMs: 1_000,
  /** The first death of a topic is mailed within 2 s (callback.md, "The alert"): its count wakes the mailer, countersToUpkeepMs later at
   *  most. The outbox is asked this often anyway: the process that counted may have died, and windows and delays end. */
  deathPollMs: 5_000,
  /** Between two looks of which the second was woken. */
  deathPauseMs: 500,
  /** A claimed alert is owed again after this long; longer than a mail may take. */
  alertClaimMs: 60_000,
  /** Alerts of one claim: some 5 ms of the store, and a frame of 5 MB where all ids and replies are long. */
  alertClaimMax: 1_000,
  /** Deaths that one mail counts, held in memory meanwhile (some 500 bytes each); those beyond wait for the next window. */
  alertsPerMail: 20_000,
  /** Of them, shown one by one (callback.md), with so many characters of the reply. */
  alertsShown: 10,
  alertExcerptMax: 300,
  /** Characters of a subject: RFC 5322 asks for lines of at most 78. */
  mailSubjectMax: 78,
  /** A whole mail; twice this and the claims are still under the claim's time. */
  mailMs: 25_000,
  /** Parts of it: name, connection and greeting each; a server that says nothing. */
  mailConnectMs: 10_000,
  mailIdleMs: 15_000,
  mailReplyBytesMax: 64 * 1024,
  /** Mails that were not accepted are tried again after 10, 20, 40 … 300 s (callback.md). */
  mailAgainMsMin: 10_000,
  mailAgainMsMax: 300_000,
  /** An address that was put off so often in a row, 70 minutes by the line above, is not waited for any more where too much
   *  piles up behind it. */
  mailTriesMax: 18,
  /** Letters about dead jobs that one address gets in an hour, half of them at once: ten topics that die all the time. A person
   *  reads no more, and mail servers take more from nobody they do not know. */
  mailsPerHourMax: 120,
  /** Incidents of an instance that are kept as files; the oldest go first, those that were mailed before the others. */
  incidentsKept: 100,
  /** How often upkeep looks at store and lateness, how long trouble lasts before it counts (callback.md: 30 s), and from
   *  which lateness on it is trouble: a takeover after the death of a notifier may take most of it (guarantees.md, G3). */
  healthEveryMs: 5_000,
  /** Of a store of more partitions the jobs are counted, and what has outlived its time is looked for, less often: each question goes
   *  to each of them. Counted in so many rounds of the health. */
  fewPartitions: 8,
  latenessRounds: 3,
  incidentAfterMs: 30_000,
  lateMs: 60_000,
  /** How often the store is asked for what has outlived its retention, and the pause while there is more of it: 20,000 entries
   *  a second, of which other callers notice little. */
  retentionEveryMs: 10_000,
  retentionPauseMs: 50,
  /** Of many partitions (fewPartitions). */
  retentionManyMs: 60_000,
  /** The embedded store removes nothing by a clock that jumped by more than clockJumpMs, until it has stood for clockHoldMs: time
   *  for NTP to set it right. clockJumpMs is half of the smallest dead.retention: a shorter jump (a step of NTP, a paused machine)
   *  makes no young entry too old. It notes the time every clockNoteMs; a start further than clockJumpMs from the note is judged
   *  as a jump. A distance longer than the shortest retention makes every entry too old at once: then the hold is clockFarHoldMs,
   *  time for an operator who reads the warning. */
  clockJumpMs: 30 * 60_000,
  clockHoldMs: 10 * 60_000,
  clockFarHoldMs: 3_600_000,
  clockNoteMs: 60_000,
  /** Log files are kept for days; an hour more is nothing. */
  janitorEveryMs: 3_600_000,
  /** Pushes that travel to a store in one call, and their bytes (architecture.md, decision 13). */
  pushBatchMax: 100,
  pushBatchBytesMax: 1024 * 1024,
  /** A push waits this long for the answer to the call before it, then goes on its own. Ten commits of a good disk. */
  pushGatherMs: 5,

  /** One transaction of the embedded store takes at most this many items or bytes. */
  groupItemsMax: 2_000,
  groupBytesMax: 8 * 1024 * 1024,
  /** One frame on the store's socket. */
  frameBytesMax: 17 * 1024 * 1024,
  /** A process's calls to the store that wait for an answer, and their bytes; more are refused as not_stored. */
  pendingCallsMax: 10_000,
  pendingCallBytesMax: 64 * 1024 * 1024,
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
  /** A start with less is refused: a log in which settles can be written on a full disk (64 pages; with 14, a promote did not
   *  fit), the index of the registry's log (32 KiB), the records in run/. */
  startRoomBytes: 384 * 1024,
  /** How often a store that comes back to a disk that cannot be used looks at it again. */
  diskAgainMs: 1_000,
  /** How often a store on a full disk looks for room. */
  diskReserveAgainMs: 1_000,
  /** A call that was sent and has no answer by now is unknown. Commits take up to 500 ms on a busy disk. */
  storeCallMs: 10_000,

  /** A call to Redis without an answer by now is unknown. A fork for a snapshot or a slow fsync of its log takes hundreds of ms;
   *  whoever pushes is answered within 3 s. */
  redisCallMs: 2_500,
  /** A server whose clock is asked for and that takes longer is left out: /readyz answers within readyMs. */
  redisClockMs: 500,
  /** How long a connection to Redis may take, may say nothing while it owes an answer, and may be idle before its first probe. */
  redisConnectMs: 3_000,
  redisSilentMs: 8_000,
  redisKeepAliveMs: 10_000,
  /** pollCeiling, unless it is given: hints come on a connection of their own and are lost with it. */
  redisPollMs: 100,
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
  /** Buckets of a Cluster: each is in one node, so they are how far its jobs can be spread; each costs polls. */
  clusterBuckets: 32,
  /** How long a closing client waits for answers that are due. */
  redisCloseMs: 1_000,
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
  /** The longest alerts.window: a topic that was told of within it is remembered, though it holds nothing. */
  alertWindowMsMax: 24 * 3_600_000,
  /** Leases whose shard a process remembers: twice what the slots of a notifier can be. */
  leasesRememberedMax: 20_000,
  /** Ids that are drawn to find one whose home answers: with one shard of eight it fails once in 5,000 times. */
  idDrawsMax: 64,
  /** Buckets of one shard: each is polled. */
  shardBucketsMax: 256,
  /** How often shards are looked through for jobs of earlier lists, while there are any; and the pause between its pieces. */
  settleEveryMs: 60_000,
  settlePauseMs: 5,
  /** Shards of one list. Each costs every process a connection, or two. */
  shardsMax: 32,
  /** Earlier lists that jobs may still be placed by; lists change by hand. */
  earlierListsMax: 200,
  /** Bodies up to here lie in the record of their job, others apart: every move reads the record, and only reserve the body. */
  inlineBodyBytesMax: 1_024,
  /** How long what an examination has found, or how far it is, is kept for who asks another process. */
  examinationKeptMs: 24 * 3_600_000,
  examinationPulseMs: 10_000,
  /** Between two pieces of an examination, which take 1–2 ms of the server each. */
  examinationPauseMs: 2,

  /** A change of a topic is in force everywhere within 2 s: every process asks this often when no hint comes. */
  registryPollMs: 1_000,
  /** One page of topics, of their changes or statistics: some 5 ms of the process that serves the job store too. A row takes 600
   *  bytes, 40 KB at most; a single one may be longer than a page. */
  registryPageRows: 500,
  registryPageBytes: 512 * 1024,
  /** Pages that dq-store keeps for the other processes of a start, which ask for the same ones a moment later: 100,000 topics. */
  registryPagesKeptBytes: 96 * 1024 * 1024,
  registryPagesKeptMs: 5_000,
  /** Different settings that a process keeps to read topics by, and the length of one: 2 MB of texts, and their objects. Settings
   *  that it has not kept are only read more slowly. */
  settingsKept: 1_000,
  settingsKeptChars: 2_000,
  /** The copy of a registry in MySQL is written as a whole again when its appended changes are longer than it, and so long. */
  snapshotAppendBytesMin: 1024 * 1024,
  /** Topics whose records cannot be read that one process names in its log; more are only counted. */
  unreadableNamed: 100,
  /** Topics with jobs in one answer of the embedded store's counts: 1 ms of it. */
  countsPageTopics: 1_000,
  /** Topics that a process looks at in one turn of its event loop: less than 5 ms. */
  topicsPerTurn: 1_000,
  /** A registry file that somebody else has locked is tried again this often, for this long. */
  registryBusyStepMs: 10,
  registryBusyMs: 2_000,
  /** Connections of one process to MySQL: one that polls, one that changes something or records statistics. */
  mysqlConnections: 2,
  /** Calls that wait for one of them: more are refused at once. Some 100 KiB each with a topic's settings at their largest. */
  mysqlQueueMax: 100,
  /** From asking for a connection to the last answer of a transaction; a commit on a busy disk takes 500 ms. */
  mysqlCallMs: 3_000,
  /** Steps of the schema: each rebuilds tables of at most some thousand rows. */
  mysqlMigrateMs: 60_000,
  /** How long one step of the schema waits for another process that makes it. */
  mysqlMigrateLockS: 30,
  /** How long the server lets a transaction wait for another one's lock. Below mysqlCallMs, so that its answer still counts. */
  mysqlLockWaitS: 2,
  /** How long the server works on one statement; dq has hung up by then. */
  mysqlStatementS: 4,
  /** What a frozen process has locked, others get back after this long. Every process asks more often than that. */
  mysqlIdleS: 20,
  /** How long the end of a process waits for the server's end of its connections. */
  mysqlGoodbyeMs: 500,
  /** How long a start waits for a MySQL that does not answer; one that refuses connections costs nothing. */
  mysqlStartMs: 1_000,
  /** Pages of the registry's log between checkpoints, and what it is cut back to: topics and counters are small, and so may
   *  the disk be. */
  registryLogPagesMax: 64,
  registryWalBytesMax: 512 * 1024,
  /** Counters travel to upkeep this often, and from there to the registry this often. */
  countersToUpkeepMs: 1_000,
  countersToRegistryMs: 5_000,
  /** Counters of one transaction of the registry: some 10 ms of the process that serves the job store too. */
  statsBatchMax: 200,
  /** Counters held while the registry is away: topics × names × days. More topics than that are dropped and told of. */
  statsHeldMax: 50_000,
  /** Ends of dq-upkeep whose statistics wait on the disk for one absence of the registry; each up to statsHeldMax, some 5 MB. */
  statFilesMax: 100,
  /** How often a notifier gives back leases of its own that it does not hold: after the last reserve without an answer, for so long as
   *  a server that stood still may take to run it, and as a rule. */
  releaseUnheldMs: 5_000,
  unheldAfterMs: 60_000,
  releaseUnheldRarelyMs: 60_000,
  /** How often a process that uses the storage clock beside the calls asks for it: clocks drift by less than 0.1 ms in a second. */
  storeClockMs: 30_000,
  /** Longest sleep of any loop: a stepped clock or a suspended machine costs at most this. */
  loopSleepMsMax: 1_000,

  /** Lines of the log files are gathered this long or up to this many characters, then written at once. */
  logFlushMs: 100,
  logBatchCharsMax: 64 * 1024,
  /** Lines of the request log about requests without the right to pass, per server, second and kind of refusal: a person sees what
   *  goes on, and a flood of them costs 2 KB a second. And characters of a topic or id that such a line shows. */
  refusedLinesPerSecond: 5,
  refusedTextMax: 64,
  /** Lines that wait for a disk that does not answer; more are dropped and counted. Some seconds of the busiest log. */
  logBacklogCharsMax: 4 * 1024 * 1024,
  /** How often a log file is compared with what lies at its path. */
  logCheckMs: 1_000,
  /** What a daemon in the background prints: nothing as a rule, 500 deaths of the runtime with their traces at most. */
  outputBytesMax: 1024 * 1024,
  /** How long an ending process waits for its last lines. */
  logCloseMs: 1_000,
  /** Characters of one value, and of one line, in a log. */
  logValueMax: 1024,
  logLineMax: 16 * 1024,

  /** Restarts of a dead worker back off between these. */
  restartMsMin: 100,
  restartMsMax: 10_000,
  /** This many failures of a role within the window end the master, before the first ready or with none of it alive. */
  crashLoopFailures: 10,
  crashLoopWindowMs: 60_000,
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
  /** How long `dq restart` waits for the check of a start, of which the attempt to load a worker may take half, and then for the
   *  next daemon: half of `storeReadyMs`. */
  startCheckMs: 30_000,
  workerCheckMs: 15_000,
  restartWaitMs: 60_000,
  /** How long `dq reload` waits: for the callbacks of the reload before, for one reload that runs and for its own. */
  reloadAnswerMs: 300_000,
  storeCheckBytesPerMs: 4 * 1024,
  /** 60 MB of topics take a process 1.3 s of a processor, and in a machine with ten times more to do than it can ten times as long. */
  registryReadBytesPerMs: 1024,
  /** Assumed size of a registry in MySQL, which the master does not ask: 100,000 topics. */
  registryInMysqlBytes: 64 * 1024 * 1024,
  /** A worker's pulse: it reports its load, asks whether its master lives, shows its watchdog that it does. */
  pulseMs: 1_000,
  /** Topics that have metrics of their own, those registered first; the rest is summed up. Nine series each: 900 are what a
   *  Prometheus takes from one target without a thought. */
  metricTopicsMax: 100,
  /** Series that the master holds: many times what there is; topics that come and go leave some behind. */
  metricSeriesMax: 10_000,
  /** Counters (topic, day, name) that the master holds while dq-upkeep is away; more are dropped, and said to be. */
  countersHeldMax: 10_000,
  /** How long upkeep and then dq-store have to finish in a stop, after the workers that use them are gone. Commits take
   *  up to 500 ms on a busy disk. */
  upkeepDrainMs: 5_000,
  storeDrainMs: 10_000,
  /** A server in a stop: the longest request, not the longest callback. */
  serverDrainMs: 10_000,
  /** A draining worker that has not ended this much after its deadline is killed. */
  drainGraceMs: 2_000,
  /** Workers that lost their master drain for this long; a new start does not wait for them. */
  orphanDrainMs: 10_000,
  /** A worker that has been ready for this long gets its watchdog; the start is over by then. */
  watchdogStartMs: 3_000,
  /** Ticks of the watchdog (one a second) without a sign of the main loop, after which it ends the process. */
  watchdogTicks: 15,
  watchdogStoreTicks: 60,
  /** Ticks of the master (one a second) without a message of a worker, after which it ends the worker: 5 ticks longer
   *  than the watchdog, whose log line names the cause. A frozen process has no watchdog, and its share of each topic would stay
   *  with it. About a lease of the default topic, so its jobs and its share come back together. */
  silentTicks: 20,
  silentStoreTicks: 65,
  /** How long a start waits for the lock of its data directory (two that meet need some ms to sort themselves out), and for the
   *  record of the master that holds it. */
  lockWaitMs: 200,
  lockHolderMs: 500,
  /** `dq token add` without a daemon waits this long for the lock: longer than a start that is refused keeps it. */
  tokenLockMs: 5_000,
  /** How long a start waits for the leftover workers that it has killed. */
  leftoverEndMs: 5_000,
  /** How long systemd-notify may take; it waits 5 s itself for systemd to have read. */
  serviceManagerMs: 10_000,
  /** Characters of the sentence for `systemctl status`; an argument of a process takes 128 KiB. */
  serviceStatusMax: 1_024,
  /** One request on the control socket, and how long a command waits for an answer to it. */
  controlLineBytesMax: 64 * 1024,
  controlCallMs: 5_000,
  /** sun_path holds 108 bytes; libuv cuts a longer path silently. */
  socketPathMax: 100,

  /** A configuration file longer than this is something else by mistake. */
  configFileCharsMax: 1024 * 1024,
  /** Descriptors of a notifier that are no callback: logs, store, cluster, libuv, resolver. Some 30 were counted. */
  descriptorsBesideSlots: 64,

  /** Idle keep-alive time that the intake advertises; draining waits it out. */
  keepAliveMs: 5_000,
  /** A request's header and whole time against slow clients, and how often they are looked at. */
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 15_000,
  connectionsCheckMs: 1_000,
  /** A connection on which nothing moves; longer than the longest answer (a store that is away, then a call of it). */
  connectionTimeoutMs: 60_000,
  /** What a refused client still sends is read and thrown away for this long: a close with unread bytes resets the
   *  connection, and the reset can overtake the refusal. */
  lingerMs: 2_000,
  /** A change of a topic is in force in every process within this time. */
  topicChangeMs: 2_000,
  /** How often a change of a topic is tried again when another change came in between. */
  topicChangeTries: 5,
  /** /readyz answers within this time: longer than a commit on a busy disk takes, shorter than monitors wait. */
  readyMs: 2_000,
  /** How long the intake waits for the master's answer about the processes. */
  masterAnswerMs: 2_000,

  /** `dq start` and `dq status` wait this long for /readyz, which gives up at readyMs and may come late on a busy machine. */
  readyAskMs: 5_000,
  /** A command waits this long for the API: a push may wait storeAwayMs, then storeCallMs; deleting a topic waits 2 s more. */
  apiCallMs: 30_000,
  /** dq doctor: fewer descriptors leave a server little room for clients; less room is soon full; slower disks hold every push up
   *  for longer than its own work takes; a clock further behind its own files has been set back, and one further from the clock of
   *  Redis is a warning, in /readyz too: machines that are synchronised by NTP differ by milliseconds. */
  openFilesWanted: 4_096,
  roomWantedBytes: 1024 ** 3,
  syncSlowMs: 10,
  clockAheadMs: 2_000,
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
  /** The longest path that Linux takes. */
  pathCharsMax: 4_095,
  /** How often long work says how far it is, where no terminal shows a bar. */
  progressEveryMs: 10_000,
  /** Longest reply of the API that a command holds: a job body of 16 MiB as base64, or escaped twofold. */
  apiReplyBytesMax: 64 * 1024 * 1024,
  /** Standard input of a push is read up to here: the largest that limits.bodyBytes can be set to. */
  pushInputBytesMax: 16 * 1024 * 1024,
  /** Connections that the callback receiver for trials holds; a notifier opens one per callback in flight. */
  sinkConnectionsMax: 2_000,
} as const;
