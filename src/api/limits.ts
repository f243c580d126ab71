// apiLimits: the fixed bounds of the HTTP API that users cannot configure, each with its reason.

export const apiLimits = {
  /** Decoded characters of a path segment: longer ones are neither a topic nor an id, and the router stops
   *  there. */
  paramLengthMax: 1_024,
  /** "did you mean" for an unknown topic or schedule: names visited (1 ms), names compared letter by letter
   *  (2 µs each), and suggestions per second and server. Together below 5 % of a core, however many requests
   *  have a wrong name. */
  suggestLooks: 20_000,
  suggestDistances: 1_000,
  suggestPerSecond: 10,
  /** Unknown names of one object in an error: each costs about 50 µs, and an object may have a million. */
  unknownNamesMax: 20,
  /** Header block of a request, as Node counts it. */
  headerBytesMax: 16 * 1024,
  /** Request line and headers of a plain request: four times those of a push with a token and a trace. */
  plainHeadBytesMax: 4 * 1024,
  /** JSON bodies of the API (topics, filters); the largest is bulkMax ids of about 400 bytes each. */
  apiBodyBytesMax: 4 * 1024 * 1024,
  /** Bodies of single jobs that arrive in pieces, held per server: four of the largest that
   *  limits.bodyBytes allows. */
  jobBodiesHeldBytesMax: 64 * 1024 * 1024,
  /** The same for bodies of at most socketReadBytes beyond that, of any kind: many more than are slow at a
   *  time. */
  smallBodiesHeldBytesMax: 4 * 1024 * 1024,
  /** Batches and JSON bodies of the API, held per server until they are answered: this many of the
   *  largest. */
  batchesHeldMax: 4,
  /** One read of a socket returns at most this: a shorter body arrives whole. */
  socketReadBytes: 64 * 1024,
  /** Lookups of a topic's preview: one per this time and process, how long a reader waits for it, and the
   *  addresses that the answer names. */
  previewEveryMs: 1_000,
  previewMs: 2_000,
  previewAddressesMax: 16,
  /** Audit entries that wait for the registry: 1 MB. The log files have all of them. */
  auditHeldMax: 1_000,
  /** Request log lines about unauthorized requests, per server, second and code: enough for a person to
   *  see the problem, and a flood costs 2 KB a second. */
  rejectedLinesPerSecond: 5,
  /** Characters of a topic or id that such a line shows. */
  rejectedTextMax: 64,
  /** Idle keep-alive time that dq advertises; draining waits for it. */
  keepAliveMs: 5_000,
  /** A connection without traffic; longer than the longest answer (an unavailable store, then one call to
   *  it). */
  connectionTimeoutMs: 60_000,
  /** The same for a request that waits for a job, beyond its wait. */
  pullSpareMs: 10_000,
  /** dq reads and discards what a rejected client still sends for this long: closing with unread bytes
   *  resets the connection, and the reset can overtake the answer. */
  lingerMs: 2_000,
  /** /readyz answers within this time: longer than a commit on a busy disk, shorter than monitors wait. */
  readyMs: 2_000,
  /** Why a ready job waits, and since when one runs: time for the notifiers' answer (they need 1 ms; a reader
   *  must not wait for a hung one), how long an answer serves all readers, and answers kept, so questions a
   *  second. */
  whyMs: 500,
  /** The master answers by then with what it has, so that a silent notifier hides no answer of the others. */
  whyAskMs: 400,
  whyKeptMs: 1_000,
  whyKeptMax: 100,
  /** Restores that /v1/journal names, the newest ones. */
  journalRestores: 10,
  /** Bytes of the body of a test call. */
  testBodyBytesMax: 64 * 1024,
  /** Time for a test call: notifierLimits.testCallMsMax, and the way to the notifier. */
  testCallMs: 32_000,
  /** How long answers of /v1/summary and /v1/series are kept at least, and how many of each. */
  answerKeptMs: 1_000,
  answersKept: 20,
  /** Points of one answer of /v1/series: more than a screen has pixels for; a day of minutes. */
  seriesPointsMax: 1_500,
  /** A step that ended less than this ago may not be written yet. */
  seriesWrittenMs: 15_000,
  /** A search by id prefix or body answers within this time, so that its progress is visible. */
  scanMs: 400,
  /** Topics that a survey of some topics names: Redis reads their numbers in each step (1 ms). */
  surveyTopicsMax: 1_000,
  /** How long surveys are kept. A horizon costs 45 ms of the embedded store
   *  per 1,000,000 jobs; with more than horizonJobsMany it is kept longer. */
  deadGroupsMs: 5_000,
  horizonMs: 30_000,
  horizonManyMs: 300_000,
  horizonJobsMany: 2_000_000,
  /** The longest path of Linux. */
  pathCharsMax: 4_095,
} as const;
