// Fixed limits of worker processes: bounds that users cannot configure, each with its reason.

export const processLimits = {
  /** Ends of dq-upkeep whose statistics wait on the disk for one absence of the registry; each up to statsHeldMax, some 5 MB. */
  statFilesMax: 100,
  /** How often a process that uses the storage clock beside the calls asks for it: clocks drift by less than 0.1 ms in a second. */
  storeClockMs: 30_000,
  /** Workers that lost their master drain for this long; a new start does not wait for them. */
  orphanDrainMs: 10_000,
  /** A worker that has been ready for this long gets its watchdog; the start is over by then. */
  watchdogStartMs: 3_000,
  /** Ticks of the watchdog (one a second) without a sign of the main loop, after which it ends the process. */
  watchdogTicks: 15,
  watchdogStoreTicks: 60,
} as const;
