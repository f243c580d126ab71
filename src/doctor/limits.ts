// Limits of the checks of `dq doctor` that users cannot configure, each with its reason.

export const doctorLimits = {
  /** Connection, greeting and login of a mail server, each, and the connection to a hook: alerts wait longer,
   *  a reader of the checks does not. */
  alertConnectMs: 4_000,
  /** Disk syncs that are measured. */
  syncs: 50,
  /** Time for a tool like timedatectl. */
  toolMs: 3_000,
  /** Topics that a finding names: a line of a terminal or two. */
  heldShown: 5,
  /** Topics whose mail addresses dq doctor reads: ten pages. */
  mailTopicsRead: 1_000,
  /** A warning below these: fewer open files leave a server little room for clients. */
  openFilesWanted: 4_096,
  freeBytesWanted: 1024 ** 3,
  /** A slower fsync delays every push by more than dq's own work. */
  syncSlowMs: 10,
  /** The journal: a packet holds any statement of it, with a body of 1 MiB as hexadecimal digits, or the
   *  attempts of a batch; the spool with the part that ends may use beyond its limit
   *  (spoolLimits.endsPart); a difference of clocks that can order two pushes wrongly. */
  journalPacketBytes: 4 * 1024 * 1024,
  journalEndsPart: 1.1,
  journalClockMs: 500,
} as const;
