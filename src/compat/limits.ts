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
