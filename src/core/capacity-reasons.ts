// Says why the jobs of a topic are not called, or few. Codes are part of the API. Reasons are made by:
//   the notifier     explain-capacity.ts: its rules of capacity.ts · notifier.ts: its own state
//   the API          capacity-route.ts: its last ones, which no notifier knows
// Held topics are called by no notifier, whatever its state: the API and dq doctor show their record, and
// incidents have a sentence about each. Last, why a topic needs attention, and the one word for its state and
// for its problem that the API, the console and the commands show.

import type { TopicState } from './topic/topic.ts';

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

export const heldReasons = ['offline', 'paused', 'not_registered', 'unreadable', 'unknown_broker'] as const;

export interface HeldTopic {
  readonly topic: string;
  readonly why: (typeof heldReasons)[number];
  /** delayed and ready jobs */
  readonly jobs: number;
}

/** Only topics with delayed or ready jobs. */
export interface HeldTopics {
  /** their number */
  readonly topics: number;
  readonly jobs: number;
  /** some of them, those with the most jobs first */
  readonly most: readonly HeldTopic[];
}

const howHeld = {
  paused: 'was paused',
  offline: 'was taken offline',
  active: 'is pulled by clients now',
  unreadable: 'has an unreadable record',
  removed: 'was removed',
} as const satisfies Record<TopicState | 'unreadable' | 'removed', string>;

/** A sentence on a topic whose jobs wait, which dq called before. */
export function heldText(topic: string, state: keyof typeof howHeld, jobs: number): string {
  const wait = `${jobs} job${jobs === 1 ? ' waits' : 's wait'}, none is called`;
  const command = state === 'paused' || state === 'offline' ? 'topic resume' : 'explain';
  return `${topic} ${howHeld[state]}: ${wait}; dq ${command} ${topic}`;
}

/** Why a topic needs attention. The first ones are the most urgent. */
export const attentionReasons = [
  'failing',
  'unreadable',
  'unknown_broker',
  'late',
  'not_pulled',
  'dead_letters',
  'offline',
  'paused',
  'not_registered',
] as const;
export type AttentionReason = (typeof attentionReasons)[number];

interface Judged {
  /** null: not registered, or not readable */
  readonly state: TopicState | null;
  readonly reasons: readonly AttentionReason[];
}

const troubles = ['failing', 'unreadable', 'unknown_broker', 'late', 'not_pulled'] as const;

/** A pause, or an offline state, hides what the calls did before: an operator has acted on it. */
export function stateWord({
  state,
  reasons,
}: Judged): TopicState | (typeof troubles)[number] | 'not_registered' {
  if (state === 'paused' || state === 'offline') return state;
  return troubles.find((one) => reasons.includes(one)) ?? state ?? 'not_registered';
}

/** The most urgent problem of a topic: its state, where that is a reason, or else the first reason;
 *  undefined: nothing. */
export function problemWord(topic: Judged): AttentionReason | undefined {
  const word = stateWord(topic);
  return topic.reasons.find((one) => one === word) ?? topic.reasons[0];
}
