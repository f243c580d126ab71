// Fixed limits of worker processes: bounds that users cannot configure, each with its reason.

export const processLimits = {
  /** Files of statistics that wait for an unavailable registry, one for each end of dq-upkeep; some 5 MB
   *  each at most. */
  statFilesMax: 100,
  /** How often a process reads the storage clock: clocks drift by less than 0.1 ms a second. */
  storeClockMs: 30_000,
  /** A step of this machine's clock: in the embedded store it is the storage clock, which is read again. */
  clockStepMs: 1_000,
  /** How long workers without a master drain; a new start does not wait for them. */
  orphanDrainMs: 10_000,
  /** A worker looks for an open debugger once more this long after it is ready. */
  debuggerCloseMs: 3_000,
  /** Facts about calls: topics per message, of which one is sent each second. As in the rows of dq-upkeep; 20
   *  KB a second with 200 busy topics. */
  factTopicsMax: 200,
  /** Time for the master's answer about processes and metrics, and to a console that got SIGTERM. */
  masterAnswerMs: 2_000,
  /** Topics with failures that all notifiers are asked about: as many as one of them names. */
  failingTopicsMax: 200,
  /** For the answer of dq-upkeep about earlier notifiers, which adds to those of the living. */
  pastFailuresMs: 400,
} as const;
