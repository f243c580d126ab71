// Fixed limits of the receiver of trials.

export const sinkLimits = {
  /** A notifier opens one connection per callback in flight. */
  connectionsMax: 2_000,
} as const;
