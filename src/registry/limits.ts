// Fixed limits of the registry caches: bounds that users cannot configure, each with its reason.

export const registryLimits = {
  /** A change of a topic is in force everywhere within 2 s: every process asks this often when no hint comes. */
  registryPollMs: 1_000,
  /** Topics whose records cannot be read that one process names in its log; more are only counted. */
  unreadableNamed: 100,
} as const;
