// pullLimits: the fixed bounds of pulling that users cannot configure, each with its reason.

export const pullLimits = {
  /** Requests that wait, per server; further ones are answered 503. Each costs some KB and a connection. */
  waitersMax: 10_000,
  /** Requests of one connection in line behind the one that waits; further ones are answered 503 in their
   *  turn. Node stops reading at 64 KiB of answers that cannot be sent. */
  pipelinedMax: 100,
  /** Reserves of a partition in one turn: with clients that arrive meanwhile, a turn would not end, and only
   *  its end answers those who got less than they want. */
  asksMax: 16,
  /** A partition that does not answer holds up the others for this long; its late answer still counts. */
  partitionMs: 500,
  /** A release that was not stored is sent again this often, after this time. Afterwards the lease expires,
   *  which costs the job an attempt. */
  releaseTries: 5,
  releaseAgainMs: 500,
  /** How often the log names a topic that has too many leases. */
  leaseLimitLogMs: 60_000,
} as const;
