// job-why.ts answers "where is this job, and why?" with one code and its numbers. Pure: the caller reads the
// job, its topic and the answers of the notifiers. The API, `dq explain` and the console show the answer, and
// decide nothing themselves. Codes are part of the API.

import { type CapacityReason, concernsPlace, noCallerAmong } from './capacity-reasons.ts';
import type { EndedJob, JobSnapshot } from './job.ts';
import { limits } from './limits.ts';
import type { PlainTopic } from './topic/topic.ts';

export const whyCodes = [
  'waits_until_due',
  'waits_to_retry',
  'waits_again',
  'not_promoted',
  'topic_paused',
  'topic_offline',
  'not_registered',
  'waits_for_pull',
  'at_pull_leases',
  'pulled',
  'at_concurrency',
  'at_rate',
  'probing',
  'ahead',
  'running',
  'leased',
  'store_away',
  'healing',
  'held',
  'no_notifier',
  'unknown',
  'dead',
  'ended',
] as const;

export type WhyCode = (typeof whyCodes)[number];
/** Why a topic's jobs are held. */
export const heldCodes = [
  'topic_paused',
  'topic_offline',
  'not_registered',
] as const satisfies readonly WhyCode[];
export type HeldCode = (typeof heldCodes)[number];

export interface Why {
  readonly code: WhyCode;
  /** waits_*, not_promoted: when it is due; dead, ended: since when. Epoch ms */
  readonly at?: number;
  /** waits_*, not_promoted: the job will be held when it is ready */
  readonly held?: HeldCode;
  /** of a ready job: jobs of its topic, priority and partition that are called before it; null = not
   *  counted */
  readonly ahead?: number | null;
  /** of a ready job behind others: when it is called at the pace of its topic, epoch ms */
  readonly likelyAt?: number;
  /** running: start of the attempt, epoch ms, and process title */
  readonly since?: number;
  readonly notifier?: string;
  /** what the notifiers say; for codes that come from them */
  readonly reasons?: readonly CapacityReason[];
}

/** What one notifier says about a topic; null: it did not answer in time. */
interface NotifierAnswer {
  readonly answer: readonly CapacityReason[] | null;
}

export interface WhyFacts {
  /** epoch ms by the storage clock */
  readonly now: number;
  /** how long a due job may stay delayed where a hint was lost, ms */
  readonly pollCeilingMs: number;
  /** undefined: not registered; null: this process cannot read its record, or has not read the topics */
  readonly topic: Pick<PlainTopic, 'state' | 'delivery'> | null | undefined;
  /** of the topic, for a ready job; null: the master did not answer in time */
  readonly notifiers: readonly NotifierAnswer[] | null;
  /** names of the partitions where the job may live; null: there is one */
  readonly places: readonly string[] | null;
  /** of a ready job; null: not counted */
  readonly ahead: number | null;
  /** of a ready job: clients hold as many leases of its topic as dq allows */
  readonly isAtPullLeases?: boolean;
  /** of a reserved job; null: no notifier of this instance says that it calls the job */
  readonly call: { readonly since: number; readonly notifier: string } | null;
}

/** What the reason of a live or dead job depends on. */
export type JudgedJob = Pick<JobSnapshot, 'state' | 'dueAt' | 'failures' | 'deadAt'> &
  Partial<Pick<JobSnapshot, 'attempts'>> & {
    /** its snoozes; absent: none, or not read */
    readonly again?: number | undefined;
  };

export function whyOf(job: JudgedJob | EndedJob, facts: WhyFacts): Why {
  if ('endedAt' in job) return { code: 'ended', at: job.endedAt };
  switch (job.state) {
    case 'dead':
      return { code: 'dead', at: job.deadAt ?? job.dueAt };
    case 'reserved':
      if (facts.call !== null) return { code: 'running', ...facts.call };
      return { code: facts.topic?.delivery === 'pull' ? 'pulled' : 'leased' };
    case 'delayed': {
      const held = heldBy(facts.topic);
      const waits = isSnoozed(job)
        ? 'waits_again'
        : job.failures === 0
          ? 'waits_until_due'
          : 'waits_to_retry';
      return {
        code: job.dueAt > facts.now - facts.pollCeilingMs ? waits : 'not_promoted',
        at: job.dueAt,
        ...(held === null ? {} : { held }),
      };
    }
    case 'ready': {
      const held = heldBy(facts.topic);
      if (held !== null) return { code: held };
      if (facts.topic?.delivery !== 'pull') return whyReady(facts);
      // A reserve of a client brings no more than one of a notifier.
      const healing = answersOf(facts)
        .flat()
        .filter(({ code }) => code === 'healing');
      if (healing.length > 0) return { code: 'healing', reasons: distinct(healing) };
      return { code: facts.isAtPullLeases === true ? 'at_pull_leases' : 'waits_for_pull' };
    }
    default:
      return { code: 'unknown' };
  }
}

/** Whether a snooze, and no later failure, decided when the job is due: a snooze waits at least
 *  againMsMin. */
function isSnoozed({ again, failures, attempts = [], dueAt }: JudgedJob): boolean {
  if (again === undefined) return false;
  const last = attempts.at(-1);
  if (failures === 0 || last === undefined) return failures === 0;
  return dueAt >= last.startedAt + last.durationMs + (last.nextDelayMs ?? 0) + limits.againMsMin;
}

/** Why its topic is held, now or when the job is ready: no attempt has a time. */
export const heldOf = ({ code, held }: Pick<Why, 'code' | 'held'>): HeldCode | undefined =>
  held ?? heldCodes.find((one) => one === code);

export const isHeld = (why: Pick<Why, 'code' | 'held'>): boolean => heldOf(why) !== undefined;

/** Clients decide when the next attempt of the job begins. */
export const isOfClients = ({ code }: Pick<Why, 'code'>): boolean =>
  code === 'waits_for_pull' || code === 'at_pull_leases' || code === 'pulled';

/** Why the jobs of a topic are held; null: they are not. */
export function heldBy(topic: WhyFacts['topic']): HeldCode | null {
  if (topic === undefined) return 'not_registered';
  if (topic === null) return null;
  if (topic.state === 'paused') return 'topic_paused';
  return topic.state === 'offline' ? 'topic_offline' : null;
}

/** The reason of the notifier, and what it says about a job. The first match counts. */
const codesOf: readonly (readonly [WhyCode, readonly CapacityReason['code'][]])[] = [
  ['store_away', ['store_unavailable']],
  ['healing', ['healing']],
  ['probing', ['ailing', 'origin_ailing']],
  ['at_rate', ['rate_reached']],
  ['at_concurrency', ['ramping', 'concurrency_reached', 'half_of_slots', 'no_free_slot']],
  ['probing', ['slow_calls']],
];

/** What the notifiers that answered say about the job. */
function answersOf({ notifiers, places }: WhyFacts): readonly (readonly CapacityReason[])[] {
  return (notifiers ?? []).flatMap(({ answer }) =>
    answer === null ? [] : [answer.filter((reason) => concernsPlace(reason, places))],
  );
}

function whyReady(facts: WhyFacts): Why {
  const { notifiers, ahead } = facts;
  if (notifiers === null) return { code: 'unknown', ahead };
  if (notifiers.length === 0) return { code: 'no_notifier', ahead };
  const noCaller = noCallerAmong(notifiers.map(({ answer }) => answer));
  if (noCaller !== null) return { code: 'no_notifier', ahead, reasons: [noCaller] };
  const answers = answersOf(facts);
  if (answers.length === 0) return { code: 'unknown', ahead };
  // One that is free calls the job after those before it.
  if (answers.some((reasons) => reasons.length === 0)) return { code: 'ahead', ahead };
  const sharing = answers.filter((reasons) => !reasons.some(({ code }) => code === 'no_share'));
  // The notifiers that call it did not answer.
  if (sharing.length === 0) return { code: 'unknown', ahead };
  const reasons = distinct(sharing.flat());
  const found = codesOf.find(([, codes]) => reasons.some(({ code }) => codes.includes(code)));
  return { code: found?.[0] ?? 'held', ahead, reasons };
}

/** The first of each code: the notifiers of one instance usually say the same. */
function distinct(reasons: readonly CapacityReason[]): readonly CapacityReason[] {
  return reasons.filter((reason, n) => reasons.findIndex(({ code }) => code === reason.code) === n);
}
