// What notifiers know about an endpoint: the origin of callback URLs, or a broker. Merges the parts of
// several topics and notifiers. Pure.

import type { AttemptReason } from './job.ts';
import { limits } from './limits.ts';
import { grouped } from './lists.ts';
import type { TopicSettings } from './topic/topic.ts';

/** Scheme, host and port of the callback URL; of delivery mq the broker: `broker:main`. '' = none. */
export function originOf({
  delivery,
  callbackUrl,
  target,
}: Pick<TopicSettings, 'delivery' | 'callbackUrl' | 'target'>): string {
  if (delivery === 'mq') return `broker:${target.broker}`;
  return callbackUrl === '' ? '' : new URL(callbackUrl).origin;
}

/** Greatest durations of the counted groups, ms; longer ones are in the last group. A value within a group is
 *  off by at most half of it. */
export const durationGroups: readonly number[] = [
  1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000,
  10_000, 30_000, 60_000,
];

/** JSON. */
export interface EndpointPart {
  readonly origin: string;
  readonly topics: readonly string[];
  /** a notifier makes few calls of one of the topics until a call succeeds */
  readonly isProbing: boolean;
  readonly inFlight: number;
  /** epoch ms; null: none since the start of the notifiers */
  readonly lastSuccessAt: number | null;
  readonly lastFailureAt: number | null;
  /** of the last failure */
  readonly lastReason: AttemptReason | null;
  /** attempts within endpointWindowMs */
  readonly delivered: number;
  readonly failed: number;
  /** those attempts by durationGroups */
  readonly durations: readonly number[];
  /** the longest of them, ms */
  readonly longestMs: number;
}

/** A job whose attempt has failed, and that gets another one. The store has its present state.
 *  JSON. */
export interface RetriedJob {
  readonly id: string;
  /** when it was first due; of one whose first attempt another notifier made, when it was pushed; epoch ms */
  readonly since: number;
  /** when its next attempt is due, epoch ms */
  readonly nextAt: number;
}

/** What a notifier knows about the calls of a topic. JSON. */
export interface TopicFailures
  extends Pick<EndpointPart, 'delivered' | 'failed' | 'lastSuccessAt' | 'lastReason'> {
  readonly topic: string;
  /** the incarnation of the notifier; absent: of an older build. 0: of notifiers that ended */
  readonly run?: number;
  /** as originOf(); absent: any */
  readonly origin?: string;
  /** failed attempts since its last success */
  readonly failuresInRow: number;
  /** of the first failure after the last success, epoch ms; null: the last attempt succeeded */
  readonly since: number | null;
  /** of the last failure; null: no reply */
  readonly lastStatus: number | null;
  /** the last failure in words; '': it has a reply */
  readonly lastDetail: string;
  /** failed attempts without a reply since its last success or failed reply */
  readonly unansweredInRow: number;
  /** of the newest failures, as many as decide whether a topic fails, epoch ms */
  readonly lastFailuresAt: readonly number[];
  /** the oldest of the jobs that were retried last; absent: none */
  readonly retried?: readonly RetriedJob[];
}

/** Of a topic that no notifier has called. */
export const notCalled = (topic: string): TopicFailures => ({
  topic,
  delivered: 0,
  failed: 0,
  failuresInRow: 0,
  unansweredInRow: 0,
  lastSuccessAt: null,
  lastFailuresAt: [],
  since: null,
  lastReason: null,
  lastStatus: null,
  lastDetail: '',
});

/** By topic, as several notifiers know it. Of two parts of one run the first counts: what it says itself
 *  comes before what dq-upkeep keeps of it. */
export function mergeFailures(parts: readonly TopicFailures[]): ReadonlyMap<string, TopicFailures> {
  const byTopic = grouped(parts, ({ topic }) => topic);
  return new Map(Array.from(byTopic, ([topic, same]) => [topic, mergeTopic(firstOfRuns(same))]));
}

/** Without those of the receiver that the topic had before. */
function firstOfRuns(parts: readonly TopicFailures[]): readonly TopicFailures[] {
  const seen = new Set<number>();
  const first = parts.filter(({ run }) => {
    if (run === undefined) return true;
    return !seen.has(run) && seen.add(run);
  });
  const { origin } = first.reduce((a, b) => (lastAttemptAt(a) >= lastAttemptAt(b) ? a : b));
  return first.filter((part) => part.origin === undefined || origin === undefined || part.origin === origin);
}

/** A success at one notifier ends the failures in a row that another one has seen before it. */
function mergeTopic(parts: readonly TopicFailures[]): TopicFailures {
  const sum = (get: (part: TopicFailures) => number) => parts.reduce((total, part) => total + get(part), 0);
  const lastSuccessAt = Math.max(...parts.map((part) => part.lastSuccessAt ?? 0));
  const inRow = (part: TopicFailures) => failuresAfter(lastSuccessAt, part);
  const starts = parts.filter((part) => inRow(part) > 0).map((part) => startAfter(lastSuccessAt, part));
  const newest = parts.reduce((a, b) => (lastFailureAt(a) >= lastFailureAt(b) ? a : b));
  const retried = oldestRetried(parts.flatMap((part) => part.retried ?? []));
  return {
    ...newest,
    ...(retried.length > 0 && { retried }),
    delivered: sum(({ delivered }) => delivered),
    failed: sum(({ failed }) => failed),
    failuresInRow: sum(inRow),
    unansweredInRow: sum((part) => Math.min(part.unansweredInRow, inRow(part))),
    lastSuccessAt: lastSuccessAt || null,
    since: starts.length === 0 ? null : Math.min(...starts),
  };
}

/** Without those that have ended since then, or that another notifier retries. */
export const stillRetried = (jobs: readonly RetriedJob[], nowMs: number): readonly RetriedJob[] =>
  jobs.filter(({ nextAt }) => nowMs < nextAt + limits.retriedKeptMs);

/** The first ones, each once. */
export function oldestRetried(jobs: readonly RetriedJob[]): readonly RetriedJob[] {
  const sorted = jobs.toSorted((a, b) => a.since - b.since || (a.id < b.id ? -1 : 1));
  return sorted
    .filter(({ id }, n) => sorted.findIndex((one) => one.id === id) === n)
    .slice(0, limits.retriedMax);
}

/** 0: none */
export const lastAttemptAt = (part: TopicFailures): number =>
  Math.max(part.lastSuccessAt ?? 0, lastFailureAt(part));

/** 0: none */
export const lastFailureAt = ({ lastFailuresAt, since }: TopicFailures): number =>
  Math.max(since ?? 0, ...lastFailuresAt);

/** Of the failures in a row those after a success of any notifier. Of more than TopicFailures lists: at least
 *  those that it lists. */
function failuresAfter(successAt: number, { since, failuresInRow, lastFailuresAt }: TopicFailures): number {
  if (since === null) return 0;
  if (since >= successAt) return failuresInRow;
  return lastFailuresAt.filter((at) => at >= successAt).length;
}

/** Of those the first. The success, where failures between both may be unlisted: it stays, and the listed
 *  ones move. */
function startAfter(successAt: number, { since, failuresInRow, lastFailuresAt }: TopicFailures): number {
  if (since !== null && since >= successAt) return since;
  const listed = lastFailuresAt.filter((at) => at >= successAt);
  const isWhole = listed.length < lastFailuresAt.length || listed.length === failuresInRow;
  return (isWhole && listed[0]) || successAt;
}

/** As the topic states of the console: 5 minutes. */
export const endpointWindowMs = 300_000;

/** Index in durationGroups. */
export function groupOf(durationMs: number): number {
  const index = durationGroups.findIndex((most) => durationMs <= most);
  return index < 0 ? durationGroups.length - 1 : index;
}

/** One part per origin, in the order of their first appearance. */
export function mergeEndpoints(parts: readonly EndpointPart[]): EndpointPart[] {
  const byOrigin = grouped(parts, ({ origin }) => origin);
  return Array.from(byOrigin, ([origin, same]) => mergeSame(origin, same));
}

function mergeSame(origin: string, parts: readonly EndpointPart[]): EndpointPart {
  const sum = (get: (part: EndpointPart) => number) => parts.reduce((total, part) => total + get(part), 0);
  const greatest = (get: (part: EndpointPart) => number) => Math.max(...parts.map(get));
  const lastSuccessAt = greatest(({ lastSuccessAt: at }) => at ?? 0);
  const lastFailureAt = greatest(({ lastFailureAt: at }) => at ?? 0);
  return {
    origin,
    topics: [...new Set(parts.flatMap(({ topics }) => topics))],
    isProbing: parts.some(({ isProbing }) => isProbing),
    inFlight: sum(({ inFlight }) => inFlight),
    lastSuccessAt: lastSuccessAt || null,
    lastFailureAt: lastFailureAt || null,
    lastReason: parts.find((part) => part.lastFailureAt === lastFailureAt)?.lastReason ?? null,
    delivered: sum(({ delivered }) => delivered),
    failed: sum(({ failed }) => failed),
    longestMs: greatest(({ longestMs }) => longestMs),
    durations: durationGroups.map((_, group) => sum(({ durations }) => durations[group] ?? 0)),
  };
}

/** The duration that `share` of the attempts did not exceed, ms, linear within its group; null without
 *  attempts. */
export function durationAt(
  share: number,
  { durations, longestMs }: Pick<EndpointPart, 'durations' | 'longestMs'>,
): number | null {
  const total = durations.reduce((sum, n) => sum + n, 0);
  if (total === 0) return null;
  const rank = share * total;
  let before = 0;
  for (const [group, n] of durations.entries()) {
    if (n > 0 && before + n >= rank) {
      const least = durationGroups[group - 1] ?? 0;
      const most = durationGroups[group] ?? least;
      return Math.min(longestMs, Math.round(least + ((most - least) * (rank - before)) / n));
    }
    before += n;
  }
  return longestMs;
}
