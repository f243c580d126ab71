// Fixed limits of upkeep: bounds that users cannot configure, each with its reason.

export const upkeepLimits = {
  /** How often dq-upkeep looks for removals of topics that were cut off, and after which time one is: it waits for topicChangeMs and two
   *  answers of the store (storeCallMs each). */
  removalCheckMs: 5_000,
  removalStaleMs: 30_000,
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
  /** Log files are kept for days; an hour more is nothing. */
  janitorEveryMs: 3_600_000,
  /** Counters of one transaction of the registry: some 10 ms of the process that serves the job store too. */
  statsBatchMax: 200,
  /** Counters held while the registry is away: topics × names × days. More topics than that are dropped and told of. */
  statsHeldMax: 50_000,
  /** Topics that have metrics of their own, those registered first; the rest is summed up. Nine series each: 900 are what a
   *  Prometheus takes from one target without a thought. */
  metricTopicsMax: 100,
} as const;
