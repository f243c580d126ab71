// Fixed limits of the registry caches: bounds that users cannot configure, each with its reason.

export const registryLimits = {
  /** Poll interval of a registry in MySQL, in every process: without a hint a changed topic is in force
   *  within 2 s. dq-store announces changes: its clients poll each sqliteLimits.registryPollMs. */
  registryPollMs: 1_000,
  /** A use of a session is recorded when this part of the idle time has passed since the last record: a few
   *  writes per session and day. */
  sessionUseParts: 12,
  /** A use of a token is recorded at most once in this time per process: "last used" needs no more. */
  tokenUseMs: 60_000,
  /** Uses in one call: 1,000 tokens in constant use make one write of 100 rows per poll. */
  tokenUsesMax: 100,
  /** Unreadable topics that one process names in its log; more are only counted. */
  unreadableNamed: 100,
} as const;
