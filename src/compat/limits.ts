// compatLimits: the fixed bounds of the ports for clients of other queues, each with its reason.

export const compatLimits = {
  /** Connections of one port and server, as php-delayqueue has. */
  connectionsMax: 2_000,
  /** Interval of TCP keep-alive probes: they find clients that have vanished. */
  keepAliveMs: 60_000,
  /** A connection without a byte for this long is closed. Clients of php-delayqueue never reconnect, so it is
   *  long, and no age closes one. */
  idleMs: 3_600_000,
  /** While more than this part of them is open, a new connection ends those without a request for silentMs: a
   *  quarter of the places is for new ones. As long as a connection of the HTTP API without traffic. */
  crowdedPart: 0.75,
  silentMs: 60_000,
  /** In a drain a connection is closed after this time without a byte: as long as an idle connection of the
   *  HTTP API. */
  drainIdleMs: 5_000,
  /** dq reads and discards what a client still sends for this long after the end of its connection: closing
   *  with unread bytes resets the connection, and the reset can overtake the last reply. */
  lingerMs: 2_000,
  /** Bytes of unanswered frames of one connection, after which dq stops reading it: one read of a socket. */
  heldBytesMax: 64 * 1024,

  // ── php-delayqueue

  /** Four digits. */
  frameBytesMax: 9_999,
  /** The client gives up after 1 s and keeps the connection: a later reply would answer its next request. */
  answerMs: 900,
  /** From the first byte of a frame to its last one. */
  frameMs: 10_000,
  /** Stored bodies that `get` examines: escapes (6 bytes for one) can shrink 60,000 bytes to a frame. */
  replyBodyBytesMax: 64 * 1024,

  // ── HTTP protocols

  /** dq makes topics for pushes while at most this many exist: a faulty client must not fill the registry. */
  autoTopicsMax: 1_000,
  /** A waiting pop of ouqiang ends before its client does, which waits 180 s. */
  popMs: 178_000,
  /** Topics of one pop, as of a pull. */
  popTopicsMax: 100,
  /** Leases of popped jobs that a server remembers: about 25 MB. The others are found by a search. */
  poppedMax: 100_000,
  /** A get of sdmq waits this long unless it says otherwise. */
  getMs: 60_000,
  /** JSON around a job's body, and its escapes: 6 bytes for one. */
  pushBytesMore: 16 * 1024,
  escapeBytes: 6,
  /** Unfinished request bodies of one port and server. */
  bodiesHeldBytesMax: 64 * 1024 * 1024,
  /** Pages of a search by id, of 1,000 jobs each. */
  searchPagesMax: 100,
  searchItemsMax: 1_000,
  /** A clearAll ends within this time; a further one goes on. */
  clearMs: 30_000,
} as const;

export const grpcLimits = {
  /** Calls of one connection at once: each call that waits for jobs is one. */
  streamsMax: 1_000,
  /** Interval of pings. A client that does not answer within the timeout has vanished, and its calls are
   *  cancelled. Node keeps a connection open after an error in its frames: these end it. */
  pingMs: 10_000,
  pingTimeoutMs: 20_000,
  /** Bodies of one pull: clients of gRPC accept 4 MiB unless they are configured. */
  replyBytesMax: 3 * 1024 * 1024,
  /** A wait ends this much before the deadline of the call, so that its jobs reach the client in time. */
  deadlineSpareMs: 500,
  /** Fields of a message, entries of lists included. A batch of batchItemsMax jobs has the most; a few more
   *  get the error that names that limit. */
  fieldsMax: 1_100,
  /** Characters of a text in the trailers: clients accept 8 KiB of metadata in all. Node sends no header of
   *  more than 64 KiB, so such a call would have no answer. */
  statusCharsMax: 600,
  /** Health checks that wait for a change, per server. */
  watchersMax: 1_000,
} as const;

/** Those that tests change. */
export interface CompatTimes {
  readonly frameMs: number;
  readonly idleMs: number;
  readonly drainIdleMs: number;
  readonly popMs?: number;
  readonly answerMs?: number;
  readonly silentMs?: number;
  readonly connectionsMax?: number;
}
