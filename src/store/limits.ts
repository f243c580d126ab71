// Fixed limits of both stores: bounds that users cannot configure, each with its reason.

export const storeLimits = {
  /** Problems of one kind that an examination shows. */
  fsckExamples: 5,
  /** Jobs that one search looks at, because a filter by state has no index of its own: 3 ms of the store as a rule, 20 ms where
   *  each lies on a page that has to be read.  */
  searchRowsMax: 2_500,
  /** A store that was not asked to recover for longer than the first was away, or so slow that its holders could not settle
   *  (recoverEveryMs and a commit of 2 s are none). For so long after it nothing is taken back by its time: notifiers are connected
   *  again within storeReconnectMsMax, and send again what had no answer after finishAgainMs. */
  recoverAwayMs: 3_000,
  recoverHoldMs: 5_000,
  /** A process's calls to the store that wait for an answer, and their bytes; more are refused as not_stored. */
  pendingCallsMax: 10_000,
  pendingCallBytesMax: 64 * 1024 * 1024,
} as const;
