// Lists the reasons why the jobs of a topic are not called, or few. Codes are part of the API. Made by:
//   the notifier     explain-capacity.ts: its rules of capacity.ts · notifier.ts: its own state
//   the API          capacity-route.ts: its last ones, which no notifier knows

export const capacityCodes = [
  'unknown_topic',
  'unreadable_topic',
  'cannot_be_called',
  'unknown_broker',
  'pulled',
  'paused',
  'offline',
  'no_share',
  'concurrency_reached',
  'half_of_slots',
  'rate_reached',
  'no_free_slot',
  'ailing',
  'ramping',
  'slowed_down',
  'slow_calls',
  'origin_ailing',
  'lookup_queued',
  'isolation',
  'isolation_pause',
  'settling',
  'store_unavailable',
  'standby',
  'no_deliveries',
  'not_leader',
  'draining',
  'no_ready_job',
  'not_promoted',
  'no_notifier',
] as const;

export interface CapacityReason {
  readonly code: (typeof capacityCodes)[number];
  /** one sentence, with the numbers of `values` */
  readonly message: string;
  /** what to do about it; one sentence */
  readonly remedy: string;
  /** by name: counts, times in ms, names of topics and hosts */
  readonly values: Readonly<Record<string, number | string>>;
}
