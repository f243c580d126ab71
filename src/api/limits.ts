// Fixed limits of the HTTP API: bounds that users cannot configure, each with its reason.

export const apiLimits = {
  /** Decoded characters of a path segment: beyond them nothing is a topic or an id, and the router looks no further. */
  paramLengthMax: 1_024,
  /** "did you mean" of a topic that does not exist: topics looked at (1 ms), of them compared letter by letter (2 µs each), and
   *  such answers a second of one server. Together below 5 % of a core, however many requests name a wrong topic. */
  suggestLooks: 20_000,
  suggestDistances: 1_000,
  suggestPerSecond: 10,
  /** Header block of a request to the intake, as Node counts it. */
  headerBytesMax: 16 * 1024,
  /** JSON bodies of the API (topics, filters); the largest is bulkMax ids of some 400 bytes each. */
  apiBodyBytesMax: 4 * 1024 * 1024,
  /** Bodies that arrive in pieces, as far as they have come: of single jobs one server holds so many bytes, four of the largest
   *  that limits.bodyBytes can allow. Of batches, until they are answered, and of the API's JSON: so many of the largest of each. */
  jobBodiesHeldBytesMax: 64 * 1024 * 1024,
  batchesHeldMax: 4,
  /** What one read of a socket brings at most: a shorter body is not waited for. */
  socketReadBytes: 64 * 1024,
  /** Items of one page: without `limit`, and the most that may be asked for. */
  pageItems: 100,
  pageItemsMax: 1_000,
  /** Buckets of one shard: each is polled. */
  shardBucketsMax: 256,
  /** Topics that a process looks at in one turn of its event loop: less than 5 ms. */
  topicsPerTurn: 1_000,
  /** Lines of the request log about requests without the right to pass, per server, second and kind of refusal: a person sees what
   *  goes on, and a flood of them costs 2 KB a second. And characters of a topic or id that such a line shows. */
  refusedLinesPerSecond: 5,
  refusedTextMax: 64,
  /** Idle keep-alive time that the intake advertises; draining waits it out. */
  keepAliveMs: 5_000,
  /** A connection on which nothing moves; longer than the longest answer (a store that is away, then a call of it). */
  connectionTimeoutMs: 60_000,
  /** What a refused client still sends is read and thrown away for this long: a close with unread bytes resets the
   *  connection, and the reset can overtake the refusal. */
  lingerMs: 2_000,
  /** /readyz answers within this time: longer than a commit on a busy disk takes, shorter than monitors wait. */
  readyMs: 2_000,
  /** How long the intake waits for the master's answer about the processes. */
  masterAnswerMs: 2_000,
  /** The longest path that Linux takes. */
  pathCharsMax: 4_095,
} as const;
