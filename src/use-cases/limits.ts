// useCaseLimits: the fixed bounds of the use cases that users cannot configure, each with its reason.

export const useCaseLimits = {
  /** Pages of a search for one job that have none: eight read 20,000 jobs, 3 ms each. */
  firstFoundPages: 8,
  /** Newest restores in which a shard that was removed as lost is looked for. */
  restoresMax: 1_000,
  /** Characters of a content type. It is stored with the job and sent on; visible ASCII only. */
  contentTypeMax: 256,
  /** Pushes of all batches of a server in the store at once, and their bytes: a single push waits behind
   *  at most this, one transaction, never behind whole batches. With small bodies it is one batch. */
  batchFeedItemsMax: 1_000,
  batchFeedBytesMax: 4 * 1024 * 1024,
  /** Pushes of one connection that wait for their turn: a line of the size of a batch. Each counts its body
   *  and what dq holds beside it. */
  lineBytesMax: 16 * 1024 * 1024,
  linePushBytes: 1024,
  /** Bytes of a batch that dq parses in one turn of the event loop: 5 ms of the slowest JSON, lists in
   *  lists. */
  batchStepBytes: 256 * 1024,
  /** Bytes of an item beside its body: ten times the longest values, with every character escaped. */
  itemBytesMore: 64 * 1024,
  /** Bytes of an escape in JSON that stands for one byte of a body. */
  escapeBytes: 6,
  /** Jobs per transaction while dq purges a topic. SQLite visits every page of a body that it frees: 3,000
   *  bodies of 256 KiB took 1.1 s from memory, and every other call waits meanwhile. */
  purgeStepMax: 250,
  /** Time that one removal of a topic spends on purging: about 50,000 jobs. Commands and proxies wait 30
   *  s. */
  purgeCallMs: 10_000,
  /** A push waits this long for the answer to the previous call, then goes in a call of its own. Ten
   *  commits of a good disk. */
  pushGatherMs: 5,
  /** Shards of one list. Each costs every process one or two connections. */
  shardsMax: 32,
  /** Earlier lists by which stored jobs may be placed; an operator changes lists by hand. */
  earlierListsMax: 200,
  /** A change of a topic is in force in every process within this time. */
  topicChangeMs: 2_000,
  /** Topics that a process visits in one turn of its event loop: less than 5 ms. */
  topicsPerTurn: 1_000,
  /** Tries of a change of a topic when concurrent changes come first. */
  topicChangeTries: 5,
} as const;
