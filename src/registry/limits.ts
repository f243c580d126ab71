// Fixed limits of the registry caches: bounds that users cannot configure, each with its reason.

export const registryLimits = {
  /** Poll interval of the registry in every process: without a hint a changed topic is in force within 2
   *  s. */
  registryPollMs: 1_000,
  /** Unreadable topics that one process names in its log; more are only counted. */
  unreadableNamed: 100,
} as const;
