// grpcLimits: the fixed bounds of the gRPC port, each with its reason.

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
