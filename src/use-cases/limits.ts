// Fixed limits of the use cases: bounds that users cannot configure, each with its reason.

export const useCaseLimits = {
  /** Content types are stored with the job and sent on: visible ASCII, at most this long. */
  contentTypeMax: 256,
  /** Pushes of all batches of a server that are with the store at once, and their bytes: a push of its own waits behind so much,
   *  one transaction, and never behind whole batches. Of small bodies that is one batch. */
  batchFeedItemsMax: 1_000,
  batchFeedBytesMax: 4 * 1024 * 1024,
  /** Jobs that leave in one transaction while a topic is cleared. SQLite walks every page of a body that it frees: 3,000 bodies of
   *  256 KiB took 1.1 s from memory, and everybody else waits meanwhile. */
  purgeStepMax: 250,
  /** What one call that removes a topic spends on its jobs: some 50,000 of them; commands and proxies wait for 30 s. */
  purgeCallMs: 10_000,
  /** A push waits this long for the answer to the call before it, then goes on its own. Ten commits of a good disk. */
  pushGatherMs: 5,
  /** Shards of one list. Each costs every process a connection, or two. */
  shardsMax: 32,
  /** Earlier lists that jobs may still be placed by; lists change by hand. */
  earlierListsMax: 200,
  /** A change of a topic is in force in every process within this time. */
  topicChangeMs: 2_000,
  /** How often a change of a topic is tried again when another change came in between. */
  topicChangeTries: 5,
} as const;
