// Fixed limits of upkeep, each with its reason. Users cannot configure them.

export const upkeepLimits = {
  /** How often the instants of schedules are looked up. */
  tickEveryMs: 1_000,
  /** Claimed at once: 10,000 at one instant are 20 rounds, of which several instances take turns. */
  tickBatchMax: 500,
  /** The next instant of a cron expression takes 0.2 to 7 ms: other work of dq-upkeep gets its turn after
   *  this time. */
  tickSliceMs: 20,
  /** How often a page of schedules is checked for next instants of a wrong clock, and its size: 10,000 take
   *  50 minutes. At a start, and after the clock went back, all are checked at once. */
  tickCheckEveryMs: 60_000,
  tickCheckMax: 200,
  /** After it another process takes an instant whose end is missing: below limits.tickLateMs, or the instant
   *  of a process that died would count as missed. */
  tickClaimMs: 15_000,
  /** Samples of attempts, for people who watch: of a topic, some screens; in all, 12,000 of usual size. */
  samplesPerTopic: 200,
  samplesBytes: 12 * 1024 * 1024,
  /** A put of the mover is durable after it: longer than a replica is behind, or an appendfsync of a second.
   *  And how long the mover waits for what it needs. */
  moveForgetMs: 5_000,
  moveWaitMs: 1_000,
  /** How often topics are checked for a removal that was cut off, and its least age: a removal takes up to
   *  topicChangeMs and two calls of the store (storeCallMs each). */
  removalCheckMs: 5_000,
  removalStaleMs: 30_000,
  /** How often `who_lives` is sent, so that leases are recovered within 5 s if the message about a death was
   *  lost; and the greatest age of an answer: two restarts of a notifier take longer. */
  whoLivesEveryMs: 3_000,
  livingFreshMs: 500,
  /** How often incidents are checked for owed mails. */
  alertPollMs: 1_000,
  /** How often the outbox is read. The first dead job of a topic is mailed within 2 s all the same: its
   *  counter wakes the mailer after at most limits.tickMs. The process that counts may die, and windows
   *  and backoffs end. */
  deathPollMs: 5_000,
  /** Least pause before a round that a counter woke. */
  deathPauseMs: 500,
  /** A claim expires after this time; longer than a mail may take. */
  alertClaimMs: 60_000,
  /** Alerts of one call of the store: some 5 ms, and a frame of 5 MB if all ids and replies are long. */
  alertClaimMax: 1_000,
  /** Dead jobs of one mail, held in memory (some 500 bytes each); further ones wait for the next window. */
  alertsPerMail: 20_000,
  /** Backoff of mails: 10, 20, 40 … 300 s. */
  mailAgainMsMin: 10_000,
  mailAgainMsMax: 300_000,
  /** Deferrals in a row, 70 minutes by the line above, after which a full claim does not wait for the
   *  address. */
  mailTriesMax: 18,
  /** Mails about dead jobs that one address gets in an hour, half of them at once: ten topics whose jobs die
   *  all the time. A person does not read more, and mail servers reject more from an unknown sender. */
  mailsPerHourMax: 120,
  /** Incident files of an instance; mailed ones are removed first, the oldest of them first, and before them
   *  those of topics and receivers while they have more than half of the files. */
  incidentsKept: 100,
  /** How often store and lateness are checked; how long a failure state lasts before it
   *  is an incident; the lateness that is one: the recovery after the death of a notifier
   *  may take most of it (src/manual/guarantees.md). */
  healthEveryMs: 5_000,
  /** A store with more partitions is counted and searched for old entries less often, because each call goes
   *  to each partition. Rounds of the health check between two counts. */
  fewPartitions: 8,
  latenessRounds: 3,
  incidentAfterMs: 30_000,
  /** How often the failures of calls are looked at; for how long no call succeeds before that is an incident:
   *  a receiver restarts within this time. With so many failures in a row: without replies, as topics that
   *  need attention (contractLimits.failingInRow); with replies, which may be about one job, more than the
   *  attempts of most topics. */
  watchEveryMs: 15_000,
  failingMs: 180_000,
  /** Topics with failures in a row that are kept for later notifiers, and how often their file is written: a
   *  death of dq-upkeep loses the failures since. */
  failureRowsMax: 1_000,
  failureRowsEveryMs: 5_000,
  unansweredInRow: 3,
  repliesInRow: 10,
  /** For how long calls succeed before that is the end of an incident: a receiver that answers now and then
   *  stays one incident. */
  quietMs: 60_000,
  /** Topics of one receiver with an incident each; more are one incident of the receiver. */
  ownIncidentsMax: 3,
  /** Incidents of receivers that last at once; one more is about all others. */
  failingIncidentsMax: 20,
  /** A pause with due jobs that is longer may be forgotten; how often that is looked at, and for how many
   *  topics, those with the most jobs: two searches of the store each. */
  pausedMs: 3_600_000,
  pausedEveryMs: 60_000,
  pausedTopicsMax: 20,
  /** Topics of late jobs that the end of an incident may name: more fit in no sentence. */
  lateTopicsMax: 10,
  /** How often old entries are removed, and the pause between calls while more remain: 20,000 entries a
   *  second, with little effect on other callers. */
  retentionEveryMs: 10_000,
  retentionPauseMs: 50,
  /** With more than fewPartitions. */
  retentionManyMs: 60_000,
  /** Log files are kept for days: an hour more does not matter. */
  janitorEveryMs: 3_600_000,
  /** How often old audit entries are removed: a walk over limits.auditMax ids takes 10 ms. */
  auditTrimMs: 600_000,
  /** Counters of one transaction of the registry: some 10 ms of dq-store, which also serves jobs. */
  statsBatchMax: 200,
  /** Counters kept while the registry is unavailable (topics × names × days). More are dropped. */
  statsHeldMax: 50_000,
  /** Topics with their own series, nine each: Prometheus takes 900 from one target easily. */
  metricTopicsMax: 100,
  /** Topics with series of their own: the sum of all rows stays below 20 MB. */
  seriesTopicsMax: 200,
  /** Rows of one transaction of the registry: three steps of each topic, and of all topics together. */
  seriesBatchMax: 603,
  /** Minutes held while the registry is unavailable. The oldest are dropped. */
  seriesHeldMinutes: 60,
  /** How often a minute is looked for that has ended, and how long a failed write waits. */
  seriesTurnMs: 1_000,
  seriesAgainMs: 10_000,
  /** Interval of looking for expired leases. After an unnoticed death of a notifier, recovery may take 15 s
   *  beyond the timeout. */
  recoverEveryMs: 1_000,
  /** Pause after a failure of the store. */
  recoverAgainMs: 200,
  /** Jobs of an operation that one call lists, and one step moves: about 20 ms of the store. */
  operationPage: 500,
  operationStepMax: 500,
  /** Jobs read at once after a death: each answer holds a body. */
  operationReads: 20,
  /** How often results are stored: a death leaves at most so much work to examine. */
  operationCheckpointMs: 1_000,
  /** After this time another process takes over an operation. Three missed checkpoints of the slowest call
   *  (storeCallMs). */
  operationLeaseMs: 15_000,
  /** Interval of looking for operations. */
  operationClaimMs: 1_000,
  /** Least interval between two steps of a paced operation. */
  operationPaceMs: 250,
  /** Pause after a failure of the store or the registry. */
  operationAgainMs: 1_000,
  /** Steps in a row whose jobs the store reads and does not move; then they count as failed. */
  operationTries: 30,
  /** Interval of looking for jobs of earlier shard lists, while there are any. */
  clearEveryMs: 60_000,
  /** Interval of writing counters to the registry. */
  countersToRegistryMs: 5_000,
} as const;
