// Constants of the journal's decorator.

export const journalStoreLimits = {
  /** A record of a push beside its body: topic, id, content type and options of the longest kind. */
  recordBytes: 2_048,
  /** Kept jobs that a push reads at once: each may have a body of limits.bodyBytes. */
  keptAtOnceMax: 4,
  /** Pushes of one job that is kept and ends before dq has read it. Each round needs an end within the ms
   *  between two calls. */
  keepRoundsMax: 3,
  /** Claimed alerts whose topic and id are remembered until they are settled; some claims expire instead. */
  claimsMax: 10_000,
} as const;
