// Fixed limits of the console: bounds that users cannot configure, each with its reason.

export const consoleLimits = {
  /** Failed sign-ins of one address in a minute, after which its secrets are checked in turn: enough for a
   *  person with a wrong token; and how many of all addresses wait for their turn: a check takes some ms. */
  failedSignInsPerMinute: 10,
  signInsWaitingMax: 100,
  /** Addresses whose failures are counted at once: 100 KB. */
  signInAddressesMax: 1_000,
  /** Failed sign-ins of a minute in the audit log: a flood must not replace the other entries. */
  failedSignInsRecorded: 60,
  /** Time without a request after which the process may end. An open page sends one every few seconds; a
   *  trial is over by then. */
  unusedMs: 15 * 60_000,
  /** A trial takes 10 s; a reader of its request takes minutes. */
  trialMs: 10 * 60_000,
  /** The push of a trial: a server answers within its deadlines, which are shorter. */
  trialPushMs: 10_000,
  /** Longest wait between tries to remove what a trial left. */
  trialRetryMsMax: 60_000,
  /** Jobs that the end of the process removes: people push a few. */
  trialJobsMax: 500,
  /** Of the request that is kept: dq sends 13 headers, each shorter. */
  trialHeadersMax: 32,
  trialTextMax: 1_024,
} as const;
