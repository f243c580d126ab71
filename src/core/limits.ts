// The bounds that two folders share or that a user meets. A bound of one folder is in that folder's
// limits.ts, a configurable one in config/options.ts. Every loop, queue, batch, body and wait has its number
// in one of these.

export const limits = {
  /** An instance that writes a journal gives a sign each second. Without one for so long it is silent: ten
   *  rounds of a slow MySQL. */
  journalSeenMs: 10_000,
  /** `restore` with `overdue: spread` makes overdue jobs due within this time. */
  restoreSpreadMs: 600_000,
  // ── jobs and topics

  /** Bytes of a job id in UTF-8. A URL path segment carries it. */
  idBytesMax: 256,
  /** ASCII characters of a topic name. */
  topicNameMax: 128,
  /** Bytes of a part of a body to search for: shorter parts are in too many bodies. */
  bodyPartBytesMin: 3,
  bodyPartBytesMax: 256,
  topicConcurrencyMax: 10_000,
  /** Callbacks per second. */
  topicRateMax: 100_000,
  topicEmailsMax: 50,
  /** Schedules of a registry. All could be due at the same instant. */
  schedulesMax: 10_000,
  scheduleEveryMsMin: 1_000,
  /** An instant that is this much later was missed: the policy `missed` decides about its job. */
  tickLateMs: 60_000,
  /** The least history.retention of the jobs of schedules: a process takes over an instant within tickLateMs,
   *  and looks for its job. Ten times that, for clocks and outages. */
  tickHistoryMs: 600_000,
  /** Each value of each field in a list needs half of it. */
  cronCharsMax: 1_024,
  /** Days that a search for an instant looks at: 29 February 2096 and 2104 are 8 years apart. */
  cronSearchDays: 8 * 366,
  /** Zones whose clock a process holds, some 50 KB each, and days of each: an instant needs at most 6. */
  wallZonesMax: 100,
  wallDaysMax: 64,
  /** Changes of a schedule's times while an instant of it is due: dq-upkeep makes it within a second, and a
   *  person changes a schedule less often. */
  earlierTimesMax: 8,
  /** Bytes of a schedule's body: it is in the registry, and read with each instant. */
  scheduleBodyBytesMax: 64 * 1024,
  /** Bytes of the records that one call of the registry returns, or of the bodies of a page: 1,000 bodies of
   *  64 KiB would exceed frameBytesMax. */
  schedulesBytesMax: 4 * 1024 * 1024,
  /** The shortest idempotency window; a repeat of a producer comes later. */
  windowMsMin: 1_000,
  /** Bound of maxAttempts, of a topic and of a job: one byte of the extension block. */
  attemptsMax: 100,
  /** Hooks of a topic, and of the configuration: each is one request per mail, and they run at once. */
  topicHooksMax: 10,
  alertHooksMax: 50,
  /** Brokers of the configuration: each notifier keeps one connection to each that a topic uses. */
  brokersMax: 32,
  /** The longest delay: 3650 days. */
  delayMsMax: 3650 * 86_400_000,
  /** Failed attempts that an import may give a job. */
  failuresMax: 65_535,
  /** Pushes of one batch: ten store calls. */
  batchItemsMax: 1_000,
  /** Attempt records that dq keeps with a job; older ones are dropped. */
  attemptsKept: 10,
  /** Planned attempts that the API names: the default of maxAttempts twice, and 1 KiB. */
  plannedMax: 20,

  /** Levels of JSON that dq parses and writes again, such as the body of a schedule: JSON.stringify manages
   *  some 5,000. */
  jsonDepthMax: 1_000,
  /** Commas, colons, lists and objects of such JSON: no call needs more than bulkMax ids have, or a body of
   *  scheduleBodyBytesMax. JSON.parse takes 20 ms for them. */
  jsonValuesMax: 50_000,

  // ── retry rules

  ruleCharsMax: 1024,
  ruleDepthMax: 32,
  ruleNodesMax: 200,
  /** Replies that show how a topic judges by its rule: a table of three conditions. */
  ruleSamplesMax: 8,
  /** Steps of one path such as {res.a.b}. */
  rulePathStepsMax: 16,

  // ── access tokens and signing secrets

  /** Every server holds all tokens in memory. */
  tokensMax: 1_000,
  tokenTopicsMax: 50,
  /** Life of a token that ends: long enough to use it once, and ten years. */
  tokenLifeMsMin: 60_000,
  tokenLifeMsMax: 3_650 * 86_400_000,
  /** 256 bits. */
  tokenBytes: 32,
  /** The readable id: 48 bits do not repeat among `tokensMax`. */
  tokenIdBytes: 6,
  /** 128 bits: a guess at the MAC of a lease is hopeless, and the text stays short. */
  leaseMacBytes: 16,
  /** By how much a token may miss the time of its pull: behind_max of numbers.lua. A clock that was set back
   *  by less leaves no other trace. */
  leaseTimeOffMs: 100,
  /** Console sessions, which every console holds in memory, and unused sign-in links; a further one replaces
   *  the one unused for longest. */
  sessionsMax: 1_000,
  /** Of one access token, so that a script that signs in each time ends no session of others. */
  sessionsPerTokenMax: 20,
  signInLinksMax: 100,
  /** A sign-in link works once within this time. */
  signInLinkMs: 10 * 60_000,
  /** Entries of the audit log that the registry keeps: about 40 MB. The log files have all of them. */
  auditMax: 100_000,
  /** Audit entries of one write, which an unavailable registry delayed: 5 ms of dq-store. */
  auditBatchMax: 50,
  /** Characters of a value in an entry: the longest entry stays below one log line. */
  auditTextMax: 200,
  /** Bytes of a signing secret: the range of Standard Webhooks. */
  secretBytesMin: 24,
  secretBytesMax: 64,
  /** Bytes of a secret that dq makes: the digest length of HMAC-SHA256; longer keys add nothing. */
  secretBytesMade: 32,
  /** A rotated secret signs beside the new one this long. */
  secretOverlapMs: 24 * 3_600_000,
  /** Secrets that sign at once. A further rotation drops the oldest, so the signature header stays short. */
  topicSecretsMax: 4,

  // ── callbacks

  /** dq reads a reply up to here. Standard Webhooks replies are empty; rules read small JSON. */
  replyBytesMax: 64 * 1024,
  /** The wait of a snooze: shorter ones would be a poll without a pause. */
  againMsMin: 1_000,
  againMsMax: 30 * 86_400_000,
  /** where againAfter reads no number */
  againMsDefault: 60_000,
  /** Of so many snoozes of a job one is a failed attempt, so every job ends. */
  againMax: 10_000,
  /** Slow calls beside each slot. 512 slots fit 2,000 topics that begin to hang at once; each such call
   *  costs a socket and about 20 KB. */
  slowCallsPerSlot: 4,
  /** Calls of restricted topics per slot: 128 of 512 slots probe 2,000 topics in a minute when each call
   *  hangs for 3 s. */
  probesPerSlot: 0.25,
  /** Topics whose last callback succeeded that a notifier remembers: it sends the list to the store when
   *  the other slots are used up. */
  keptTopicsMax: 256,
  /** File descriptors of a notifier that serve no callback: logs, store, cluster, libuv, resolver. About 30
   *  measured. */
  descriptorsBesideSlots: 64,
  /** A call starts only when its timeout plus this much of the lease is left. */
  leaseReserveMs: 2_000,
  /** dq obeys Retry-After up to this long. */
  retryAfterMsMax: 24 * 3_600_000,
  /** Topics in a row by onDone and onDead. A step costs a delivery; more than a few are a workflow. */
  outcomeTopicsMax: 8,
  /** Of the reply and of the body that an outcome job brings, each. A reply is read to replyBytesMax. */
  outcomePartBytesMax: 64 * 1024,
  /** Jobs whose bodies one call reads at once for their outcome jobs, and the bytes that they may have by
   *  limits.bodyBytes. Of a body longer than outcomePartBytesMax the outcome job keeps the length only. */
  outcomesReadAtOnce: 16,
  outcomesReadBytesMax: 16 * 1024 * 1024,
  /** Strikes from which a job is isolated, and with which it is buried as poison. */
  strikesIsolated: 2,
  strikesPoison: 5,

  // ── store calls: bounded work per call

  /** A group of pushes in one call, and its bytes. */
  pushBatchMax: 100,
  pushBatchBytesMax: 1024 * 1024,
  /** At 200 jobs a transaction 94,000/s were measured; larger steps delay the other callers. */
  promoteMax: 500,
  /** A reply frame is bounded by reserveBytesMax too. */
  reserveMax: 250,
  reserveBytesMax: 8 * 1024 * 1024,
  /** Finishing writes in one call: a transaction of 500 delays the other callers by 10–20 ms. */
  finishBatchMax: 500,
  recoverMax: 500,
  /** Leases of pullOwner in a partition. Their readers walk all of them: 20,000 take some ms. A topic has at
   *  most as many as are left then: one alone half of them, two a third each, so no topic stops others. */
  pullLeasesMax: 20_000,
  /** Bounds of the lease of a pulled job: a topic's, a job's own one, a request's and an extension's. */
  pullLeaseMsMin: 1_000,
  pullLeaseMsMax: 24 * 3_600_000,
  /** Jobs of one requeue or purge call. */
  bulkMax: 10_000,
  /** Operations in the registry, ended ones too: some 2 KB each, and one list shows them all. */
  operationsKept: 100,
  /** Operations that wait or run; more are rejected. Their steps take turns, so more would only be slower. */
  operationsOpenMax: 10,
  /** Ids that an operation names: 260 KB if they are long, in one row of the registry. */
  operationIdsMax: 1_000,
  /** Examples of failed jobs in the answer. */
  operationFailuresKept: 10,
  /** Jobs per second of an operation, and the longest time to spread them over. */
  operationRateMax: 10_000,
  operationSpreadMsMax: 7 * 86_400_000,
  /** History entries and dead letters that one call removes after their retention: about 10 ms. */
  forgetMax: 1_000,
  expireMax: 500,
  /** One frame on the socket of dq-store. */
  frameBytesMax: 17 * 1024 * 1024,
  /** Linux allows 108 bytes in sun_path; libuv truncates a longer path silently. */
  socketPathMax: 100,
  /** Free bytes that a start needs: 64 pages of WAL, in which settles fit on a full disk (a promote does not
   *  fit in 14), the index of the registry's WAL (32 KiB), and the records in run/. */
  startFreeBytes: 384 * 1024,

  // ── Redis

  /** A call without a reply by now has an unknown outcome. A fork for a snapshot or a slow fsync takes
   *  hundreds of ms; a push must be answered within 3 s. */
  redisCallMs: 2_500,
  /** Interval of polls of Redis while the subscription for hints is unproven: it has a connection of its own,
   *  and hints are lost with it. Also how long before the next due job the promote script decides. */
  redisPollMs: 100,
  /** Buckets of a Cluster. A bucket lives on one node, so this many nodes can share the jobs; each bucket
   *  costs polls. */
  clusterBuckets: 32,
  /** A closing client waits this long for replies. */
  redisCloseMs: 1_000,

  // ── registry

  /** A locked registry file is tried again for this long. */
  registryBusyMs: 2_000,
  /** From requesting a connection to the last reply of a transaction; a commit on a busy disk takes 500
   *  ms. */
  mysqlCallMs: 3_000,

  // ── upkeep and mail

  /** The least history.retention with a journal: ends whose records were lost are found in the history by
   *  then. */
  journalHistoryMsMin: 3_600_000,
  /** The largest limits.bodyBytes with a journal. */
  journalBodyBytesMax: 1024 * 1024,
  /** The longest alerts.window: dq remembers a mailed topic for it. */
  alertWindowMsMax: 24 * 3_600_000,
  /** A whole mail. Twice this plus the claims is less than the claim's time. */
  mailMs: 25_000,
  /** Counters (topic, day, name) that the master holds without a dq-upkeep; it drops and reports more. */
  countersHeldMax: 10_000,

  // ── processes

  /** The longest sleep of any loop: a stepped clock or a suspended machine delays work by at most this. */
  loopSleepMsMax: 1_000,
  /** How often an instance without a journal notes that its ends are not recorded: a later audit then leaves
   *  out jobs that may have ended meanwhile. */
  unrecordedEveryMs: 60_000,
  /** Interval of a worker's load report, and of its check of the master. */
  tickMs: 1_000,
  /** A draining worker is killed this long after its deadline. */
  drainGraceMs: 2_000,
  /** A job that is due for so long is late: an incident, and a topic that needs attention. */
  lateMs: 60_000,
  /** Jobs of a topic that are looked up for its lateness: several, because some have ended meanwhile. */
  retriedMax: 4,
  /** Retried jobs are named for so long after their next attempt was due: probes of a receiver that is
   *  unavailable reach a backlog late. */
  retriedKeptMs: 600_000,
  /** Topics whose oldest overdue jobs StoreAdmin.counts names: twice those that one summary shows. */
  oldestMax: 40,
  /** Too many failures of a role within this time end the master (masterLimits.crashLoopFailures). */
  crashLoopWindowMs: 60_000,
  /** Time for a request's header and for the whole request, against slow clients; interval of the check. */
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 15_000,
  connectionsCheckMs: 1_000,

  // ── logs and dq doctor

  /** Characters of one value in a log line. */
  logValueMax: 1024,
  /** A clock further behind its own files was set back. Further from the clock of Redis it is a warning, in
   *  /readyz too: machines with NTP differ by milliseconds. */
  clockAheadMs: 2_000,
} as const;
