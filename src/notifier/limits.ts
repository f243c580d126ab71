// Fixed limits of the notifiers: bounds that users cannot configure, each with its reason.

export const notifierLimits = {
  /** With `standby`: time of the leader's row, its renewal, and the time without an answer of MySQL after
   *  which each instance delivers. Takeover within leaderMs + leaderEveryMs. */
  leaderMs: 6_000,
  leaderEveryMs: 2_000,
  leaderAwayMs: 30_000,
  /** How often an instance that waits looks for a row that was given up: one read of one row. */
  leaderLookMs: 500,
  /** How long the end of a notifier waits for MySQL to free the row: a healthy MySQL takes some ms. */
  leaderGiveUpMs: 1_000,
  /** A topic with a rate may start this much of it at once: shorter than a receiver notices, long enough to
   *  reserve a batch and not single jobs at thousands a second. */
  rateBurstMs: 100,
  /** Bytes of a reply that an attempt record keeps, and characters of it in a log line. */
  replyExcerptMax: 1024,
  /** Characters of the reply to a successful attempt that are kept: every delivered job keeps one for
   *  history.retention, and such replies are seldom longer. */
  deliveredExcerptMax: 100,
  /** What else a failed attempt keeps: characters of its failure; references of the retry rule and
   *  characters of each value; header lines of the reply and characters of each. Usual attempts take 150
   *  bytes of it, the largest 2 KiB, so that ten attempts stay below the body of a usual job. */
  detailMax: 200,
  ruleValuesMax: 5,
  ruleValueMax: 64,
  replyHeadersMax: 8,
  replyHeaderMax: 128,
  /** A receiver without an accepted connection by then (look-up and TLS included) fails as `connect`, also
   *  where its topic's timeout is longer; undici's default. */
  connectMsMax: 10_000,
  /** Deadline of a host name look-up; then the attempt fails as `dns`. Longer than 5 s, after which glibc
   *  asks the next name server; shorter than connectMsMax. */
  lookupMs: 6_000,
  /** The same for a name without an answer the last time: long enough for a name server that works again,
   *  and the slot is free soon. */
  lookupAgainMs: 1_500,
  /** A call waits this long for a look-up that waits for a thread. Then the job is released; the look-up
   *  stays queued, and the topic is called again after its turn. */
  lookupTurnMs: 1_500,
  /** How often a topic whose look-up is queued is checked, so at most one release a second and topic.
   *  Shorter than lookupFailedMs, so that the next call gets the result. Checks within the second time are
   *  one. */
  lookupPauseMs: 1_000,
  lookupPauseStepMs: 100,
  /** The probe before a look-up: a packet is sent again after the first time, and then to the next server.
   *  The whole probe ends after the second. */
  lookupPacketMs: 1_000,
  lookupProbeMs: 3_000,
  /** A look-up that takes longer occupies a thread that others need. Answers of healthy resolvers take 200
   *  ms at most. */
  lookupSlowMs: 1_000,
  /** A name of this rank starts a look-up by the system while fewer than this many run (name-lookups.ts). */
  lookupThreads: { silent: 2, new: 4, good: 6 },
  /** How long an answer is used: a burst of connections costs one look-up, and a change is followed at
   *  once. */
  lookupFreshMs: 5_000,
  /** How long a call waits for a newer answer while there is an old one, and how long an old one may be
   *  used. A name server that restarts or fails over is back by then; RFC 8767 allows days. */
  lookupPatienceMs: 500,
  lookupOldMs: 300_000,
  /** Cache time of a failed look-up: of a rejected name, of a name without an answer. */
  lookupFailedMs: 2_000,
  lookupSilentMs: 5_000,
  /** Host names in the cache, 1 KiB each at most. */
  lookupNamesMax: 10_000,
  /** How often hosts and resolv.conf are checked for a change, and the size up to which they are read. */
  lookupFileMs: 1_000,
  lookupFileBytesMax: 4 * 1024 * 1024,
  /** A callback connection takes no request after this age, so that a changed DNS record is followed. One
   *  handshake a minute costs little. */
  connectionAgeMsMax: 60_000,
  /** Idle callback connections are kept this long, or as long as the receiver says, up to the second
   *  number. Short, because a request that meets a closing connection is sent again over a new one, and
   *  the receiver may get it twice; a busy endpoint still never dials. */
  callbackKeepAliveMs: 3_000,
  callbackKeepAliveMsMax: 10_000,
  /** A connection is kept so much shorter than the receiver says, as undici does: its close takes time to
   *  arrive. */
  keepAliveReserveMs: 2_000,
  /** undici sends requests with longer bodies: a longer text costs as much to make as undici's work. */
  plainBodyBytesMax: 16 * 1024,
  /** Of a reply longer than limits.replyBytesMax dq reads this many bytes, then pauses this long: 25 MB/s,
   *  1 % of a core for each such call. Without a pause, one endless reply takes a whole core. */
  dropBytes: 256 * 1024,
  dropPauseMs: 10,
  /** The longest head of a reply. Servers bound it to 8 or 16 KiB; proxies and tracing add to it. */
  replyHeadBytesMax: 64 * 1024,
  /** A topic is ailing after this many attempts in a row that ended in connect, tls, dns or timeout. Until
   *  an attempt succeeds it gets at most the second number of calls at once. */
  ailingAttempts: 10,
  ailingCallsMax: 2,
  /** Replies of a gateway (502, 503, 504) are an outage when no attempt has succeeded for this time. The
   *  backlog of a shorter one is small, and a receiver that answers some jobs so, for later, has successes
   *  between. */
  gatewayOutageMs: 10_000,
  /** After an outage (ailing) a topic gets this part of its concurrency and rate. The part doubles after each
   *  such time in which most attempts reached the receiver, so all of it returns in 4 s. */
  rampStart: 0.1,
  rampStepMs: 1_000,
  /** A receiver asks to slow down (429, or 503 with Retry-After): the topic does after so many such replies
   *  in a row, because a receiver may also reject single jobs so; in a ramp after it, at once. */
  slowDownAttempts: 3,
  /** The pause without a Retry-After: doubled for each probe in a row that gets such a reply again. */
  slowDownMsMin: 1_000,
  slowDownMsMax: 30_000,
  /** A Retry-After is obeyed for the whole topic up to this long. The reply may be about single jobs, such as
   *  those of a customer without quota: the others wait behind each of them for one pause. A probe a minute
   *  costs a receiver nothing. The job of the reply waits longer by itself (retryAfterMsMax). */
  slowDownAskedMsMax: 60_000,
  /** An origin is ailing after ailingAttempts as well; then its restricted topics hold this many probes in
   *  total. */
  ailingOriginCallsMax: 8,
  /** A call that runs for longer leaves its slot for the slow account: above the p99 of usual receivers,
   *  and two waves of newly hanging topics delay a healthy topic by less than 2 s. */
  slowCallMs: 500,
  /** The ages of running calls are compared with slowCallMs at most this often. */
  slowCallStepMs: 20,
  /** While there are more restricted topics than probes, other topics get their turn after this long. */
  probeTurnMs: 100,
  /** With a smaller share of the slots free, topics in good standing without a running call go first, this
   *  often. */
  calmShare: 0.75,
  keptFirstMs: 50,
  /** While this many young calls of topics without a result run, one reserve brings no more. Each opens a
   *  connection, 0.3 ms of the event loop. */
  untriedAtOnce: 64,
  /** A finishing write without an answer is sent again after this long. */
  finishAgainMs: 200,
  /** How long a drain waits, beyond its deadline, for the answers to its last finishing writes: a commit on
   *  a busy disk may take this long. */
  lastFinishMs: 2_000,
  /** How long jobs are called alone while others wait, and how many jobs a reserve between them takes: one
   *  turn of the wheel, which shows whether any priority waits; all but one of them are released. */
  isolationMs: 100,
  isolationReserveMax: 10,
  /** How long the grant of a reserve is kept from the other partitions: the cost of a lost hint. An answer
   *  usually takes 1 ms; jobs of a later one are released where there is no capacity left. */
  grantMs: 100,
  /** A notifier computes the capacity that most topics share again when twice as many topics differ from it
   *  as the last time, and at least this many. */
  exceptionsMin: 100,
  /** Topics whose capacity at rest differs from the base: each costs a reserve 0.5 µs. With more, a new
   *  base is made:
   *  2 ms for 5,000 topics, at both ends. */
  changedTopicsMax: 64,
  /** How often a notifier releases its leases that it does not hold: after a failed reserve, for as long as
   *  a frozen server may take to run it, and otherwise. */
  releaseUnheldMs: 5_000,
  unheldAfterMs: 60_000,
  releaseUnheldRarelyMs: 60_000,
  /** Samples of attempts for people who watch: failures and successes of a topic in one step, which all
   *  notifiers share, those of all topics of one notifier (1 KiB each: 0.2 % of a core), and the step. */
  failedSamples: 20,
  deliveredSamples: 5,
  samplesPerSecond: 200,
  samplesEveryMs: 1_000,
  /** A test call: its longest time, because a page waits for it; characters of the reply that it shows, its
   *  headers, and characters of each. */
  testCallMsMax: 30_000,
  testReplyMax: 4_096,
  testHeadersMax: 20,
  testHeaderMax: 256,
  /** Topics whose calls are counted for the endpoints (1.2 KB each), and the steps of their window. */
  endpointTopicsKept: 2_000,
  endpointSteps: 10,
  /** Failures of a topic whose times are kept: contractLimits.failingInRow of them decide. */
  lastFailuresKept: 3,
  /** Topics of an answer about failures: ten times those that the console shows, 30 KB. */
  failingTopicsMax: 200,
  /** Endpoints of an answer: some screens; 30 KB with the names of a few topics each. */
  endpointsMax: 200,
  /** Share of the slots that only topics whose last callback succeeded and that have no running call may
   *  use. */
  keptSlotsShare: 0.125,
} as const;
