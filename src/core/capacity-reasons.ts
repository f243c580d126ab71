// Lists the reasons why the jobs of a topic are not called, or few. Codes are part of the API. Made by:
//   the notifier     explain-capacity.ts: its rules of capacity.ts · notifier.ts: its own state
//   the API          capacity-route.ts: its last ones, which no notifier knows

export const capacityCodes = [
  'unknown_topic',
  'unknown_topics',
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
  'healing',
  'standby',
  'no_deliveries',
  'not_leader',
  'draining',
  'no_ready_job',
  'not_promoted',
  'no_notifier',
  'no_caller',
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

/** All answers are those of notifiers without a share of the topic: the ones that call it are not ready.
 *  null: one of the answers is of a notifier that calls it, or may be. */
export function noCallerAmong(answers: readonly (readonly CapacityReason[] | null)[]): CapacityReason | null {
  const shares = answers.map((reasons) => reasons?.find(({ code }) => code === 'no_share'));
  const [first] = shares;
  if (first === undefined || shares.includes(undefined)) return null;
  const { callers = '' } = first.values;
  return {
    code: 'no_caller',
    message: `only ${callers} may call this topic, and none of them is ready`,
    remedy: 'dq status shows the processes; the error log names the cause',
    values: { callers },
  };
}

/** Whether the reason holds jobs of any of these partitions. A reason of some partitions names them in
 *  `values.places`. `places`: null = there is one partition */
export function concernsPlace({ values }: CapacityReason, places: readonly string[] | null): boolean {
  const { places: own } = values;
  if (places === null || typeof own !== 'string') return true;
  return own.split(' ').some((place) => places.includes(place));
}
