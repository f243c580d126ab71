// What happened over time, as columns.

import { Type } from 'typebox';
import { jobStates } from '../../core/job.ts';
import { seriesSteps } from '../../core/series.ts';
import { contractLimits } from './limits.ts';
import {
  AttemptReason,
  closed,
  count,
  countOrNull,
  each,
  flag,
  type JsonOf,
  problems,
  reply,
  TopicName,
  text,
  textOrNull,
} from './schema.ts';

const tags = ['operation'];
export const countedColumns = ['pushed', 'delivered', 'failed', 'retried', 'dead', 'cancelled'] as const;

const column = (description: string) =>
  Type.Array(Type.Unsafe<number | null>({ type: ['integer', 'null'], examples: [12] }), {
    description: `${description}; null: not recorded`,
  });

/** null: not recorded */
export type SeriesColumn = readonly (number | null)[];

const TimingColumns = closed(
  {
    p50: column('median in ms, about'),
    p95: column('95 of 100 are at most this, in ms, about'),
    p99: column('99 of 100 are at most this, in ms, about'),
    max: column('the longest, in ms'),
  },
  { title: 'TimingColumns' },
);

const ms = (description: string) => countOrNull(description, 41);

const TimingTotals = closed(
  {
    p50: ms('median in ms, about'),
    p95: ms('ms, about'),
    p99: ms('ms, about'),
    max: ms('the longest, in ms'),
  },
  { title: 'TimingTotals' },
);

const StepSeconds = count('seconds of a step', 60);

const StepStarts = Type.Array(Type.Integer(), {
  description: 'beginnings of the steps, epoch ms',
  examples: [[1_893_456_000_000]],
});

const Series = closed(
  {
    topic: textOrNull('the topic; null: all topics', 'order.close'),
    step: StepSeconds,
    at: StepStarts,
    unfinished: flag('the last step is not over', true),
    ...each(countedColumns, (name) =>
      column(name === 'failed' ? 'failed attempts' : `${name} jobs or attempts`),
    ),
    lateness: TimingColumns,
    duration: TimingColumns,
    states: closed(
      each(jobStates, (state) => column(`${state} jobs at the end of the step`)),
      { title: 'StateColumns' },
    ),
    oldestOverdueMs: column(
      'how long the oldest job that dq delivers had been due, or a job of a pull topic that was still delayed; 0: none',
    ),
    reasons: Type.Array(
      closed({
        reason: AttemptReason,
        status: countOrNull('HTTP status of the reason status', 502),
        total: count('failed attempts in this range', 12),
        counts: column('failed attempts'),
      }),
      { description: `at most ${contractLimits.seriesReasonsMax}, the most frequent first` },
    ),
    totals: closed(
      {
        ...each(countedColumns, (name) => count(`${name} in this range`, 12)),
        firstAttempts: count('first attempts of their jobs', 12),
        firstDelivered: count('first attempts that delivered', 12),
        recordedSteps: count('steps of this range that are recorded', 60),
        lateness: TimingTotals,
        duration: TimingTotals,
      },
      { title: 'SeriesTotals' },
    ),
  },
  { title: 'Series' },
);
export type SeriesJson = JsonOf<typeof Series>;

const SeriesQuery = closed({
  topic: Type.Optional(TopicName),
  from: Type.Optional(
    text('beginning: RFC 3339 with an offset, epoch ms, or a duration before now; default 1h', '24h'),
  ),
  to: Type.Optional(text('end: RFC 3339 with an offset, or epoch ms; default now', '1893456000000')),
  step: Type.Optional(
    Type.Enum(
      seriesSteps.map(({ name }) => name),
      { description: 'default: the finest one that is kept for this range' },
    ),
  ),
});

export const seriesSchema = {
  operationId: 'series',
  tags,
  summary: 'Counts, lateness and durations over time',
  description:
    'One minute steps are kept for 24 h, ten minutes for 7 days, two hours for 90 days; of one topic 3 h, 48 h and 30 days. Without topic: all topics together, only for callers that cover every topic.',
  querystring: SeriesQuery,
  response: { 200: reply('the series', Series), ...problems(404, 503) },
};

const TopicSeries = closed(
  {
    step: StepSeconds,
    at: StepStarts,
    topics: Type.Array(
      closed({
        topic: TopicName,
        delivered: column('deliveries'),
        failed: column('failed attempts'),
        durationP95: column('95 of 100 calls took at most this, in ms, about'),
      }),
      { description: 'in the order of names' },
    ),
  },
  { title: 'TopicSeries' },
);
export type TopicSeriesJson = JsonOf<typeof TopicSeries>;

export const topicSeriesSchema = {
  operationId: 'topicSeries',
  tags,
  summary: 'Deliveries and durations of the last 24 hours for some topics',
  querystring: closed({
    names: Type.Optional(
      text(
        `required: topics, separated by commas; at most ${contractLimits.sparksMax}`,
        'order.close,bill.send',
      ),
    ),
  }),
  response: { 200: reply('two-hour steps', TopicSeries), ...problems(503) },
};
