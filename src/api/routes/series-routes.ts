// /v1/series answers what happened over time, as columns: one row of the registry per step and writer, added
// up here. /v1/series/topics answers the deliveries of the last day for a page of topics.
// Invariant: null means not recorded; a step without events is 0. Each answer reads bounded ranges.

import { contractLimits } from '../../contract/api/limits.ts';
import { each } from '../../contract/api/schema.ts';
import {
  countedColumns,
  type SeriesJson,
  seriesSchema,
  type TopicSeriesJson,
  topicSeriesSchema,
} from '../../contract/api/series.ts';
import { parseDuration } from '../../core/duration.ts';
import { invalidField } from '../../core/errors.ts';
import { jobStates } from '../../core/job.ts';
import {
  addFacts,
  everyTopic,
  type Facts,
  failedOf,
  noFacts,
  percentileOf,
  reasonOfKey,
  type SeriesStep,
  type StoredJobs,
  seriesSteps,
  stepStart,
  type Timing,
  unpackFacts,
} from '../../core/series.ts';
import type { SeriesRow } from '../../ports/registry.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { KeptAnswers } from '../http/kept-answers.ts';
import { readInstant } from '../http/request-head.ts';
import { needs, requireTopic } from '../http/route-access.ts';
import { apiLimits } from '../limits.ts';
import { requireKnownTopic, requireTopicOf } from './dead-filter.ts';

const percentiles = { p50: 0.5, p95: 0.95, p99: 0.99 } as const;
const percentileNames = ['p50', 'p95', 'p99'] as const;

export function seriesRoutes(api: Api, { role }: ApiContext): void {
  const { registry, clock } = role;
  const kept = new KeptAnswers<SeriesJson>();
  const keptSparks = new KeptAnswers<TopicSeriesJson>();
  const config = needs('read', 'handler');

  api.get('/v1/series', { schema: seriesSchema, config }, async (request) => {
    const { topic } = request.query;
    requireTopicOf(request, topic);
    const range = readRange(request.query, clock.now());
    if (topic !== undefined) await requireKnownTopic(role, topic);
    return kept.of(JSON.stringify([topic, range]), async () => {
      const { step, from, to } = range;
      const names = topic === undefined ? [everyTopic] : [everyTopic, topic];
      const rows = await registry.series({ topics: names, step: step.seconds, from, to });
      return answerOf(topic ?? null, range, rows, clock.now());
    });
  });

  api.get('/v1/series/topics', { schema: topicSeriesSchema, config }, async (request) => {
    const names = [...new Set((request.query.names ?? '').split(','))].filter((name) => name !== '');
    if (names.length === 0 || names.length > contractLimits.sparksMax)
      throw invalidField('names', `must be 1 to ${contractLimits.sparksMax} topics, separated by commas`);
    for (const name of names) requireTopic(request, name);
    const now = clock.now() / 1_000;
    const step = seriesSteps[2];
    const range = { step, from: stepStart(now - 86_400, step.seconds), to: stepStart(now, step.seconds) };
    return keptSparks.of(JSON.stringify([names, range]), async () => {
      const rows = await registry.series({ ...range, step: step.seconds, topics: [everyTopic, ...names] });
      const found = names.map((topic) => {
        const facts = factsBySteps(topic, range, rows);
        return {
          topic,
          delivered: facts.map((one) => one?.counts.delivered ?? null),
          failed: facts.map((one) => (one === null ? null : failedOf(one))),
          durationP95: facts.map((one) => one && percentileOf(one.duration, percentiles.p95)),
        };
      });
      return { step: step.seconds, at: timesOf(range).map((at) => at * 1_000), topics: found };
    });
  });
}

interface Range {
  readonly step: SeriesStep;
  /** epoch seconds of the first and the last step */
  readonly from: number;
  readonly to: number;
}

function readRange(
  query: { topic?: string; from?: string; to?: string; step?: string },
  nowMs: number,
): Range {
  const to = query.to === undefined ? nowMs : readInstant('to', query.to);
  const from = beginningOf(query.from ?? '1h', nowMs);
  if (from >= to) throw invalidField('from', 'must be before to');
  const rangeOf = (step: SeriesStep): Range => ({
    step,
    from: stepStart(from / 1_000, step.seconds),
    to: stepStart(to / 1_000, step.seconds),
  });
  const keptFor = ({ keepAll, keepTopic }: SeriesStep) => (query.topic === undefined ? keepAll : keepTopic);
  const fits = (step: SeriesStep) => (to - from) / 1_000 / step.seconds < apiLimits.seriesPointsMax - 1;
  const step =
    query.step === undefined
      ? (seriesSteps.find((one) => (nowMs - from) / 1_000 <= keptFor(one) && fits(one)) ?? seriesSteps[2])
      : (seriesSteps.find(({ name }) => name === query.step) as SeriesStep);
  if (!fits(step))
    throw invalidField('from', `gives more than ${apiLimits.seriesPointsMax} points; use a longer step`);
  return rangeOf(step);
}

/** Epoch ms. */
function beginningOf(given: string, nowMs: number): number {
  const duration = parseDuration(given);
  // Digits alone are epoch ms, not seconds.
  return duration.ok && !/^\d+$/.test(given) ? nowMs - duration.value : readInstant('from', given);
}

function timesOf({ step, from, to }: Range): number[] {
  return Array.from({ length: (to - from) / step.seconds + 1 }, (_, n) => from + n * step.seconds);
}

/** The facts of each step; null: not recorded. A topic without a row had no events, if all topics have
 *  rows. */
function factsBySteps(topic: string, range: Range, rows: readonly SeriesRow[]): (Facts | null)[] {
  const own = sumsOf(topic, rows);
  const all = topic === everyTopic ? own : sumsOf(everyTopic, rows);
  return timesOf(range).map((at) => own.get(at) ?? (all.get(at)?.isComplete === true ? noFacts() : null));
}

/** By time. */
function sumsOf(topic: string, rows: readonly SeriesRow[]): Map<number, Facts> {
  const sums = new Map<number, Facts>();
  for (const row of rows) {
    if (row.topic !== topic) continue;
    const facts = unpackFacts(row.packed);
    if (facts === null) continue;
    const known = sums.get(row.at);
    if (known === undefined) sums.set(row.at, facts);
    else addFacts(known, facts);
  }
  return sums;
}

function answerOf(topic: string | null, range: Range, rows: readonly SeriesRow[], nowMs: number): SeriesJson {
  const facts = factsBySteps(topic ?? everyTopic, range, rows);
  const times = timesOf(range);
  // Steps that are being written are not missing ones.
  const isWritten = (at: number | undefined) =>
    at === undefined || (at + range.step.seconds) * 1_000 + apiLimits.seriesWrittenMs <= nowMs;
  while (facts.length > 0 && facts.at(-1) === null && !isWritten(times.at(-1))) {
    facts.pop();
    times.pop();
  }
  const columnOf = (value: (one: Facts) => number | null) =>
    facts.map((one) => (one === null ? null : value(one)));
  const total = noFacts();
  for (const one of facts) if (one !== null) addFacts(total, one);
  const storedOf = (value: (jobs: StoredJobs) => number | null) =>
    columnOf((one) => (one.stored === null ? null : value(one.stored)));
  return {
    topic,
    step: range.step.seconds,
    at: times.map((at) => at * 1_000),
    unfinished: times.length > 0 && ((times.at(-1) as number) + range.step.seconds) * 1_000 > nowMs,
    ...each(countedColumns, (name) => columnOf((one) => countOf(one, name))),
    lateness: timingColumns(facts, 'lateness'),
    duration: timingColumns(facts, 'duration'),
    states: each(jobStates, (state) => storedOf((jobs) => jobs[state])),
    oldestOverdueMs: storedOf((jobs) => (topic === null ? (jobs.oldestOverdueMs ?? 0) : null)),
    reasons: reasonsOf(facts, total),
    totals: {
      ...each(countedColumns, (name) => countOf(total, name)),
      firstAttempts: total.counts.firstAttempts,
      firstDelivered: total.counts.firstDelivered,
      recordedSteps: facts.filter((one) => one !== null).length,
      lateness: timingOf(total.lateness),
      duration: timingOf(total.duration),
    },
  };
}

function countOf(facts: Facts, name: (typeof countedColumns)[number]): number {
  return name === 'failed' ? failedOf(facts) : facts.counts[name];
}

function timingOf(timing: Timing) {
  const any = timing.counts.some((n) => n > 0);
  return {
    ...each(percentileNames, (name) => percentileOf(timing, percentiles[name])),
    max: any ? timing.max : null,
  };
}

/** Steps without calls have no times. */
function timingColumns(facts: readonly (Facts | null)[], which: 'lateness' | 'duration') {
  const timings = facts.map((one) => (one === null ? null : one[which]));
  return {
    ...each(percentileNames, (name) =>
      timings.map((timing) => (timing === null ? null : percentileOf(timing, percentiles[name]))),
    ),
    max: timings.map((timing) => (timing?.counts.some((n) => n > 0) ? timing.max : null)),
  };
}

function reasonsOf(facts: readonly (Facts | null)[], total: Facts) {
  return [...total.reasons]
    .sort(([, a], [, b]) => b - a)
    .flatMap(([key, n]) => {
      const known = reasonOfKey(key);
      if (known === null) return [];
      const counts = facts.map((one) => (one === null ? null : (one.reasons.get(key) ?? 0)));
      return [{ ...known, total: n, counts }];
    })
    .slice(0, contractLimits.seriesReasonsMax);
}
