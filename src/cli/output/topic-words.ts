// Says in words what the API judges about a topic: what its receiver does or what holds it, what is stored,
// and what to press. dq explain, dq status and dq topic ls share them.

import type { CapacityReasonJson } from '../../contract/api/job.ts';
import type { PushResultJson } from '../../contract/api/push.ts';
import type { SummaryJson, TopicAttentionJson } from '../../contract/api/stats.ts';
import type { CapacityJson } from '../../contract/api/topic.ts';
import { type AttentionReason, problemWord } from '../../core/capacity-reasons.ts';
import { ageWords, lateWords } from '../../core/duration.ts';
import { deathWords, failureWords as wordsOfFailure } from '../../core/job.ts';
import { excerpt, shownInstant, words } from './output.ts';

const detailMax = 120;

export const times = (count: number): string => (count === 1 ? 'once' : `${count} times`);

/** Jobs that wait for their due time, their next attempt or a call. */
export const waiting = ({ ready, delayed }: TopicAttentionJson['states']): number => ready + delayed;

/** How late the oldest waiting job is, counted from its first attempt; null: none is due. `now`: the
 *  daemon's clock, epoch ms */
export const lateBy = ({ late }: Pick<TopicAttentionJson, 'late'>, now: number): string | null =>
  late == null ? null : lateWords(now - Date.parse(late.since), late.atLeast);

/** The first line of dq explain without a topic; '' where the reply has another form. */
export function troubleLine({ attention, attentionCount, topics, at, now }: SummaryJson): string {
  const [worst] = attention;
  const all = topics.active + topics.paused + topics.offline;
  const age = ageWords(Date.parse(now) - Date.parse(at));
  const old = age === '' ? '' : `; ${age}`;
  if (worst === undefined) return `no topic needs attention (${counted(all, 'topic')} registered)${old}`;
  const need = attentionCount === 1 ? 'needs' : 'need';
  return `${counted(attentionCount, 'topic')} ${need} attention: ${worst.topic} ${problemOf(worst, Date.parse(now))}${attentionCount > 1 ? ' …' : ''}; dq explain ${worst.topic}${old}`;
}

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

function problemOf(line: TopicAttentionJson, now: number): string {
  const { failure, states } = line;
  const since = line.since === null ? '' : `since ${shownInstant(line.since)}`;
  const last = failure === null ? '' : `: ${failureWords(failure)}`;
  const problem = problemWord(line);
  switch (problem) {
    case 'failing':
      return `${words('fails', since)}${last}`;
    case 'late':
      return `is late by ${lateBy(line, now) ?? 'an unknown time'}`;
    case 'dead_letters':
      return `has ${counted(states.dead, 'dead letter')}${deathOf(line)}`;
    case 'not_pulled':
      return `has due jobs and no client that pulls: late by ${lateBy(line, now)}`;
    default:
      return `${words(held[problem ?? ''] ?? `is ${problem}`, since && `(${since} or earlier)`)} and holds ${counted(waiting(states), 'job')}`;
  }
}

const held: Readonly<Record<string, string>> = {
  not_registered: 'is not registered',
  unreadable: 'has an unreadable record',
  unknown_broker: 'names a broker that is not configured',
};

export type HeldReason = NonNullable<PushResultJson['held']>;

/** Where dq accepts a job that it does not call. */
export const heldWarning = (topic: string, why: HeldReason): string =>
  `topic ${topic} ${held[why] ?? `is ${why}`}, so dq holds its jobs; ${remedyFor(topic, why)}`;

type FailureJson = NonNullable<TopicAttentionJson['failure']>;

export const failureWords = (failure: FailureJson): string => excerpt(wordsOfFailure(failure), detailMax);

/** `: status 503`, `, 3 of them: expired` */
function deathOf({ dead, states }: TopicAttentionJson): string {
  if (dead == null) return '';
  const { deadReason, lastReason, status } = dead;
  const last = lastReason === null ? null : { reason: lastReason, status };
  return `${dead.count < states.dead ? `, ${dead.count} of them` : ''}: ${deathWords(deadReason, last)}`;
}

/** What the first reason of a topic is about, for a list: what the calls said, of what jobs died, or what
 *  holds the oldest one. */
export function causeOf(line: TopicAttentionJson): string {
  const { failure, oldest } = line;
  const died = deathOf(line).replace(/^[:,] /, '');
  const failed = failure === null ? '' : failureWords(failure);
  if (problemWord(line) === 'dead_letters') return died;
  return failed || excerpt(oldest?.says[0]?.message ?? '', detailMax) || died;
}

/** What to press, for a list of topics. */
export const commandOf = (line: TopicAttentionJson): string => remedyFor(line.topic, problemWord(line));

function remedyFor(topic: string, problem: AttentionReason | undefined): string {
  if (problem === 'paused' || problem === 'offline') return `dq topic resume ${topic}`;
  return problem === 'dead_letters' ? `dq dead groups ${topic}` : `dq explain ${topic}`;
}

/** Reasons that hold all jobs of a topic, whatever its receiver does. The first match counts. */
const holds: readonly CapacityReasonJson['code'][] = [
  'paused',
  'offline',
  'unreadable_topic',
  'unknown_broker',
  'cannot_be_called',
  'unknown_topics',
  'no_notifier',
  'no_caller',
  'no_deliveries',
  'not_leader',
  'store_unavailable',
  'healing',
  'pulled',
];

/** The first line of dq explain TOPIC, and the codes of the reasons that it tells. `now`: the daemon's clock,
 *  epoch ms */
export function topicLine(
  { topic, attention, delayed, reasons, notifiers }: CapacityJson,
  now: number,
): { readonly line: string; readonly told: readonly CapacityReasonJson['code'][] } {
  const all = [...reasons, ...notifiers.flatMap((one) => one.reasons ?? [])];
  const found = (code: CapacityReasonJson['code']) => all.find((reason) => reason.code === code);
  const held = holds.map(found).find((reason) => reason !== undefined);
  if (attention === null)
    return {
      line: `${topic}: ${held?.message ?? 'the store does not answer'}`,
      told: held ? [held.code] : [],
    };
  const isUnknown = attention.state === null && found('unreadable_topic') === undefined;
  const isPaused = ['paused', 'offline'].includes(problemWord(attention) ?? '');
  const since =
    isPaused && attention.since !== null ? ` (since ${shownInstant(attention.since)} or earlier)` : '';
  const hangs = found('slow_calls');
  const parts = [
    isUnknown
      ? 'not registered: dq holds its jobs'
      : held === undefined
        ? receiverWords(attention, hangs?.message)
        : `${held.message}${held.code === attention.state ? since : ''}`,
    countsOf(attention.states, delayed),
    oldestOf(attention, delayed, now),
    adviceOf(attention, { isUnknown, isHeld: held !== undefined, hangs: hangs !== undefined }),
  ];
  return {
    line: `${topic}: ${parts.filter((part) => part !== '').join('; ')}`,
    told: [
      'no_ready_job',
      ...(held === undefined ? [] : [held.code]),
      ...(isUnknown ? (['unknown_topic'] as const) : []),
    ],
  };
}

/** `hangs`: the message of a notifier whose calls get no answer */
function receiverWords({ receiver, calls, failure }: TopicAttentionJson, hangs: string | undefined): string {
  if (receiver === null) return 'clients pull its jobs';
  const name = `receiver ${receiver}`;
  const last = failure === null ? '' : `: ${failureWords(failure)}`;
  if (calls !== null && calls.failuresInRow > 0) {
    const since = calls.since === null ? '' : ` since ${shownInstant(calls.since)}`;
    return `${name} fails${since} (${calls.failuresInRow} in a row)${last}`;
  }
  if (hangs !== undefined) return `${name} hangs: ${hangs}`;
  if (calls === null) return `${name}: not every notifier says what it answers`;
  const attempts = calls.delivered + calls.failed;
  if (attempts === 0) return `${name}: no attempt within 5 minutes`;
  if (calls.failed === 0)
    return `${name} answers: ${counted(attempts, 'attempt')} delivered within 5 minutes`;
  return `${name} answers; ${calls.failed} of ${attempts} attempts failed within 5 minutes, the last one${last}`;
}

function countsOf(states: TopicAttentionJson['states'], delayed: CapacityJson['delayed']): string {
  const retrying = Math.min(delayed?.retrying ?? 0, states.delayed);
  const isCounted = delayed?.retrying != null;
  const counts = [
    [states.ready, 'ready'],
    [retrying, 'retrying'],
    [states.delayed - retrying, isCounted ? 'not yet due' : 'delayed'],
    [states.reserved, 'running'],
    [states.dead, 'dead'],
  ] as const;
  const some = counts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  return some.join(', ') || 'no jobs';
}

/** How late the oldest waiting job is, and which one is due next where none is due. */
function oldestOf(attention: TopicAttentionJson, delayed: CapacityJson['delayed'], now: number): string {
  const { late, oldest } = attention;
  const next = oldest === null ? (delayed?.next ?? null) : null;
  return [
    late == null
      ? ''
      : `late by ${lateBy(attention, now)}: ${late.id}, first due at ${shownInstant(late.since)}`,
    next === null ? '' : `next ${next.id}, due at ${shownInstant(next.dueAt)}`,
  ]
    .filter((part) => part !== '')
    .join('; ');
}

function adviceOf(
  { topic, state, calls, reasons, states }: TopicAttentionJson,
  {
    isUnknown,
    isHeld,
    hangs,
  }: { readonly isUnknown: boolean; readonly isHeld: boolean; readonly hangs: boolean },
): string {
  if (isUnknown) return `register: dq topic add ${topic}`;
  if (state === 'paused' || state === 'offline') return `resume: dq topic resume ${topic}`;
  if (isHeld) return '';
  // The counters of today, which make a topic fail where no notifier called it, may be of an earlier failure.
  const isFailing =
    calls === null
      ? reasons.includes('failing')
      : calls.failuresInRow > 0 || (calls.failed > 0 && reasons.includes('failing'));
  if (isFailing || hangs) return `try: dq topic test ${topic}; stop: dq topic pause ${topic}`;
  return states.dead > 0 ? `causes: dq dead groups ${topic}; again: dq dead requeue ${topic}` : '';
}
