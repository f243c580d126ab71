// Fixed limits of both stores: bounds that users cannot configure, each with its reason.

export const storeLimits = {
  /** Example rows per kind of problem that fsck reports. */
  fsckExamples: 5,
  /** Jobs that one search scans, because not each filter has an index of its own: usually 3 ms, 20 ms where
   *  each job is on another page of the disk. */
  searchRowsMax: 2_500,
  /** Surveys work in steps of about this long, and rest after each for this multiple of its duration, so
   *  they use a quarter of the store's time at most. The shortest of so many steps counts: on a busy machine
   *  a step waits longer than it works. Surveys that wait for the running one: more would wait for seconds.
   *  A survey that takes longer in all is given up, well below storeCallMs. */
  surveyStepMs: 1,
  surveyRestPerStep: 3,
  surveyStepsCompared: 4,
  surveysWaitingMax: 4,
  surveyMsMax: 5_000,
  /** Jobs counted before one: beyond, a person only needs to know that there are many. */
  positionMax: 1_000,
  /** Dead letters that deadGroups examines (30 ms of the embedded store), and groups that it returns. */
  groupedDeadMax: 10_000,
  deadGroupsMax: 200,
  /** After more than recoverAwayMs without a recover call (recoverEveryMs plus a commit of 2 s is less) the
   *  store was unavailable, or too slow for outcomes. Then no lease expires for recoverHoldMs: notifiers
   *  reconnect within storeReconnectMsMax and send unanswered outcomes again after finishAgainMs. */
  recoverAwayMs: 3_000,
  recoverHoldMs: 5_000,
  /** While jobs.db moves to Redis: ids that one call looks for there; how old the knowledge may be that jobs
   *  are left; and how long a call waits for a mover that has to tell Redis of the move, at its begin and
   *  after a failover (2 s in all). */
  movingFindMax: 1_000,
  movingLookMs: 1_000,
  movingTriesMax: 20,
  movingAgainMs: 100,
  /** A process's pending calls to the store, and their bytes; more are rejected as not_stored. */
  pendingCallsMax: 10_000,
  pendingCallBytesMax: 64 * 1024 * 1024,
} as const;
