// Series are what happened in a step of time: counts, histograms of lateness and duration, reasons of failed
// attempts, stored jobs. packFacts() writes the facts of one step as a short text, about 80 bytes.
// Invariants: adding facts is associative, so that the rows of several processes add up; a number of the
// packed form never changes its meaning, because registries keep rows for months.

import { type AttemptReason, attemptReasons } from './job.ts';

/** Steps of recorded series, the finest first. `keepAll`, `keepTopic`: seconds that the rows of all topics
 *  together, and of one topic, are kept. With 200 busy topics all rows take some 20 MB. */
export const seriesSteps = [
  { name: '1m', seconds: 60, keepAll: 86_400, keepTopic: 3 * 3_600 },
  { name: '10m', seconds: 600, keepAll: 7 * 86_400, keepTopic: 48 * 3_600 },
  { name: '2h', seconds: 7_200, keepAll: 90 * 86_400, keepTopic: 30 * 86_400 },
] as const;
export type SeriesStep = (typeof seriesSteps)[number];

/** The topic of a row about all topics together: no topic has this name. */
export const everyTopic = '';

/** What the statistics of a topic count. */
export const statNames = ['pushed', 'delivered', 'retried', 'dead', 'cancelled', 'again'] as const;
export type StatName = (typeof statNames)[number];

/** In the packed order: append only. */
const factCounts = [
  'pushed',
  'delivered',
  'retried',
  'dead',
  'cancelled',
  'firstAttempts',
  'firstDelivered',
  'again',
] as const;
type FactCount = (typeof factCounts)[number];

/** Upper bounds of the buckets in ms; a last bucket takes longer times. Part of the packed form. */
const bounds = [
  1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000,
  7_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 900_000, 3_600_000,
] as const;

export interface Timing {
  /** per bucket */
  readonly counts: number[];
  /** ms */
  max: number;
}

export interface StoredJobs {
  readonly delayed: number;
  readonly ready: number;
  readonly reserved: number;
  readonly dead: number;
  /** null: none is overdue, or unknown for one topic */
  readonly oldestOverdueMs: number | null;
}

export interface Facts {
  readonly counts: Record<FactCount, number>;
  /** start of the call minus due time */
  readonly lateness: Timing;
  /** of callbacks */
  readonly duration: Timing;
  /** failed attempts by reason: an HTTP status, or the position in attemptReasons */
  readonly reasons: Map<number, number>;
  /** the newest of the step; null = not recorded */
  stored: StoredJobs | null;
  /** of a row about all topics: each registered topic with events has its own row */
  isComplete: boolean;
}

export function noFacts(): Facts {
  return {
    counts: Object.fromEntries(factCounts.map((name) => [name, 0])) as Record<FactCount, number>,
    lateness: { counts: new Array<number>(bounds.length + 1).fill(0), max: 0 },
    duration: { counts: new Array<number>(bounds.length + 1).fill(0), max: 0 },
    reasons: new Map(),
    stored: null,
    isComplete: true,
  };
}

/** Counts one time. */
export function addTime(timing: Timing, ms: number): void {
  const whole = Math.max(0, Math.round(ms));
  let bucket = 0;
  while (bucket < bounds.length && whole > (bounds[bucket] as number)) bucket += 1;
  timing.counts[bucket] = (timing.counts[bucket] as number) + 1;
  timing.max = Math.max(timing.max, whole);
}

export function addReason({ reasons }: Facts, key: number, n = 1): void {
  reasons.set(key, (reasons.get(key) ?? 0) + n);
}

/** `status`: of the reply; null without one */
export function reasonKey(reason: AttemptReason, status: number | null): number {
  return reason === 'status' && status !== null ? status : attemptReasons.indexOf(reason);
}

/** null: an unknown reason. */
export function reasonOfKey(key: number): { reason: AttemptReason; status: number | null } | null {
  if (key >= leastStatus) return { reason: 'status', status: key };
  const reason = attemptReasons[key];
  return reason === undefined ? null : { reason, status: null };
}
const leastStatus = 100;

/** Adds `more` to `facts`; its stored jobs are the newer ones. */
export function addFacts(facts: Facts, more: Facts): void {
  for (const name of factCounts) facts.counts[name] += more.counts[name];
  addTiming(facts.lateness, more.lateness);
  addTiming(facts.duration, more.duration);
  for (const [key, n] of more.reasons) addReason(facts, key, n);
  facts.stored = more.stored ?? facts.stored;
  facts.isComplete &&= more.isComplete;
}

function addTiming(to: Timing, { counts, max }: Timing): void {
  for (const [n, count] of counts.entries()) to.counts[n] = (to.counts[n] as number) + count;
  to.max = Math.max(to.max, max);
}

/** The failed ones of the attempts that ended, as far as notifiers reported them. */
export function failedOf({ reasons }: Facts): number {
  let failed = 0;
  for (const n of reasons.values()) failed += n;
  return failed;
}

/** ms, about: interpolated inside a bucket; null without times. `part`: 0 to 1 */
export function percentileOf({ counts, max }: Timing, part: number): number | null {
  const total = counts.reduce((sum, n) => sum + n, 0);
  if (total === 0) return null;
  const rank = part * total;
  let before = 0;
  for (const [bucket, n] of counts.entries()) {
    if (n > 0 && before + n >= rank) {
      const from = bucket === 0 ? 0 : (bounds[bucket - 1] as number);
      const to = Math.min(max, bounds[bucket] ?? max);
      return Math.round(from + ((to - from) * (rank - before)) / n);
    }
    before += n;
  }
  return max;
}

// The packed form: a list of whole numbers, each in groups of seven bits, the lowest first, as base64. Of the
// buckets, one number has a bit for each that is not empty, and their counts follow.

/** Receivers decide how many statuses there are: a step keeps every reason and, in the places of those that
 *  did not occur, its most frequent statuses. `status` counts the others. */
const reasonsMax = attemptReasons.length + 1;
const form = 1;
const flags = { stored: 1, complete: 2, again: 4 } as const;
/** In each step. `again` comes last, by its flag, where readers that do not know it stop. */
const alwaysPacked = factCounts.filter((name) => name !== 'again');

export function packFacts(facts: Facts): string {
  const { stored } = facts;
  const { again } = facts.counts;
  const flag =
    (stored === null ? 0 : flags.stored) |
    (facts.isComplete ? flags.complete : 0) |
    (again === 0 ? 0 : flags.again);
  const numbers = [form, flag, ...alwaysPacked.map((name) => facts.counts[name])];
  if (stored !== null) {
    const overdue = stored.oldestOverdueMs;
    numbers.push(stored.delayed, stored.ready, stored.reserved, stored.dead);
    numbers.push(overdue === null ? 0 : overdue + 1);
  }
  for (const { counts, max } of [facts.lateness, facts.duration]) {
    const filled = counts.reduce((bits, n, bucket) => (n > 0 ? bits + 2 ** bucket : bits), 0);
    numbers.push(max, filled, ...counts.filter((n) => n > 0));
  }
  const reasons = fewReasons(facts.reasons);
  numbers.push(reasons.length, ...reasons.flat());
  if (again > 0) numbers.push(again);
  const bytes: number[] = [];
  for (const number of numbers) {
    let left = Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.round(number)));
    for (; left >= 128; left = Math.floor(left / 128)) bytes.push((left % 128) + 128);
    bytes.push(left);
  }
  return Buffer.from(bytes).toString('base64');
}

function fewReasons(reasons: ReadonlyMap<number, number>): [number, number][] {
  const all = [...reasons].sort(([, a], [, b]) => b - a);
  if (all.length <= reasonsMax) return all;
  const few = new Map(all.filter(([key]) => key < leastStatus));
  const status = attemptReasons.indexOf('status');
  for (const [key, n] of all.filter(([other]) => other >= leastStatus))
    if (few.size < reasonsMax - 1) few.set(key, n);
    else few.set(status, (few.get(status) ?? 0) + n);
  return [...few];
}

/** null: damaged, or of another form. */
export function unpackFacts(packed: string): Facts | null {
  const bytes = Buffer.from(packed, 'base64');
  let at = 0;
  const next = (): number => {
    let number = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = bytes[at++];
      if (byte === undefined || unit > Number.MAX_SAFE_INTEGER) throw damaged;
      number += (byte % 128) * unit;
      if (byte < 128) return number;
    }
  };
  try {
    if (next() !== form) return null;
    const facts = noFacts();
    const flag = next();
    facts.isComplete = (flag & flags.complete) !== 0;
    for (const name of alwaysPacked) facts.counts[name] = next();
    if ((flag & flags.stored) !== 0) {
      const [delayed, ready, reserved, dead] = [next(), next(), next(), next()] as const;
      const overdue = next();
      facts.stored = { delayed, ready, reserved, dead, oldestOverdueMs: overdue === 0 ? null : overdue - 1 };
    }
    for (const timing of [facts.lateness, facts.duration]) {
      timing.max = next();
      let filled = next();
      for (const bucket of timing.counts.keys()) {
        if (filled % 2 === 1) timing.counts[bucket] = next();
        filled = Math.floor(filled / 2);
      }
    }
    for (let left = next(); left > 0; left -= 1) {
      const key = next();
      facts.reasons.set(key, next());
    }
    if ((flag & flags.again) !== 0) facts.counts.again = next();
    return facts;
  } catch (error) {
    if (error === damaged) return null;
    throw error;
  }
}
const damaged = new Error('damaged facts');

/** Start of the step that holds a time; both in seconds. */
export function stepStart(epochS: number, step: number): number {
  return Math.floor(epochS / step) * step;
}
