// contractLimits: the bounds that the contract of the HTTP API names, each with its reason.

export const contractLimits = {
  /** Items of one page: the default and the maximum of `limit`. */
  pageItems: 100,
  pageItemsMax: 1_000,
  /** Entries of one page of the audit log: about 1 MB where all are long. */
  auditPageMax: 200,
  /** Buckets of one shard: each is polled. */
  shardBucketsMax: 256,
  /** Topics that /v1/summary names: a screen of them. */
  attentionMax: 20,
  /** A topic fails: this part of today's attempts failed, of at least so many. */
  failingPercent: 5,
  failingAttempts: 20,
  /** After a success it does not fail any more, once no attempt has failed for this time, and for three times
   *  the mean time between its failures. */
  failingQuietMs: 60_000,
  /** An endpoint fails after so many failures of a topic in a row, also with few attempts. */
  failingInRow: 3,
  /** Topics of an endpoint that /v1/endpoints names: some lines of a card. */
  endpointTopicsMax: 20,
  /** Attempts of one reply: the default, and all that dq-upkeep keeps of a topic. */
  attempts: 50,
  attemptsMax: 200,
  /** Entries of the flow of one job: the newest ones, each with at most one attempt (some 4 KB). */
  flowMax: 200,
  /** Test calls of one process in a minute, as a person makes them. */
  testCallsPerMinute: 10,
  /** How long the reply of /v1/store is kept: one INFO per server in this time for all viewers. */
  storeFactsMs: 5_000,
  /** Reasons of failed attempts that /v1/series names. */
  seriesReasonsMax: 10,
  /** Topics of one answer of /v1/series/topics: a page of the console. */
  sparksMax: 50,
  /** Dead letters that one call with a filter by reason or status examines. */
  deadRowsMax: 2_500,
  /** Topics of one pull: each is a line of every reserve. */
  pullTopicsMax: 100,
  /** Jobs of one pull, and leases of one ack, nack or extend. */
  pullJobsMax: 100,
  pullCallLeasesMax: 1_000,
  /** Longest wait of a pull: below the usual idle limits of proxies and clients. */
  pullWaitMsMax: 180_000,
  /** Characters of the reason of a nack, as of a detail of a callback. */
  nackReasonCharsMax: 200,
  /** The console shows the findings so far after this time: a reader waits no longer. MySQL and Redis take
   *  5 s each when they are unavailable, brokers take brokerLimits.openMsMax, and the mail server twice
   *  alertConnectMs. */
  doctorRunMs: 25_000,
} as const;
