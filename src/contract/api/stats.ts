// Counters, stored jobs, waiting jobs by due time, and the summary of an instance.

import { Type } from 'typebox';
import { attentionReasons, heldReasons } from '../../core/capacity-reasons.ts';
import { incidentKinds } from '../../core/incident.ts';
import { jobStates } from '../../core/job.ts';
import { whyCodes } from '../../core/job-why.ts';
import { jobsOfFile, leftBehindCodes } from '../../core/left-behind.ts';
import { operationKinds } from '../../core/operation.ts';
import { statNames } from '../../core/series.ts';
import { horizonClasses } from '../../core/survey.ts';
import { topicStates } from '../../core/topic/fields.ts';
import type { TopicState } from '../../core/topic/topic.ts';
import { incidentHelp } from './alert.ts';
import { CapacityReason } from './job.ts';
import { contractLimits } from './limits.ts';
import {
  attemptReasonOrNull,
  closed,
  count,
  countedAt,
  countOrNull,
  DeadReason,
  deadTimes,
  dueJob,
  each,
  flag,
  instant,
  instantOrNull,
  JobId,
  type JsonOf,
  LastReason,
  Missing,
  orNull,
  problems,
  type ReplyOf,
  reply,
  TopicName,
  text,
  textOrNull,
  texts,
  topicParam,
} from './schema.ts';

const tags = ['operation'];

const numbers = <Name extends string>(title: string, names: readonly Name[], what: string) =>
  closed(
    each(names, (name) => count(`${name} ${what}`, 1)),
    { title },
  );

const StatCounts = numbers('Counts', statNames, 'jobs or attempts, counted');
export type CountsJson = JsonOf<typeof StatCounts>;
const StateCounts = numbers('StateCounts', jobStates, 'jobs stored now');
const counters = { total: StatCounts, today: StatCounts, states: StateCounts };

/** Of StoreAdmin.counts() without held topics. */
const ofOldest =
  'how long the oldest due job has been due, ready or not yet, also of paused, offline and pull topics';

const Stats = closed(
  {
    topics: Type.Array(
      closed(
        {
          topic: TopicName,
          registered: flag('the topic is registered', true),
          ...counters,
        },
        { title: 'TopicStatsLine' },
      ),
      { description: 'by name; only topics that the token covers' },
    ),
    states: StateCounts,
    oldestOverdueMs: countOrNull(`${ofOldest}; null: none is due`, 120),
    orphaned: count('stored jobs without a registered topic; dq holds them and never drops them', 0),
    missing: Missing,
  },
  { title: 'Stats' },
);
export type StatsJson = JsonOf<typeof Stats>;

export const statsSchema = {
  operationId: 'stats',
  tags,
  summary: 'Counters and stored jobs per topic; today: since midnight in the option timezone',
  response: { 200: reply('the statistics', Stats), ...problems(503) },
};

const TopicStats = closed({ topic: TopicName, ...counters, missing: Missing }, { title: 'TopicStats' });
export type TopicStatsJson = JsonOf<typeof TopicStats>;

export const topicStatsSchema = {
  operationId: 'topicStats',
  tags: ['topics'],
  summary: 'Counters and stored jobs of a topic',
  params: closed(topicParam),
  response: { 200: reply('the statistics', TopicStats), ...problems(404, 503) },
};

export const horizonSchema = {
  operationId: 'horizon',
  tags: ['jobs'],
  summary: 'Waiting jobs by due time',
  description:
    'Counts delayed and ready jobs. A class holds the jobs that are due within its time and not within the ' +
    'time of the class before. Covers the topics that the caller may see.',
  querystring: closed({ topic: deadTimes.topic }),
  response: {
    200: reply(
      'the classes',
      closed(
        {
          classes: Type.Array(
            closed({
              upTo: Type.Enum([...horizonClasses], { description: 'due within this time' }),
              count: count('waiting jobs', 1200),
            }),
            { description: 'all classes, the earliest first' },
          ),
          total: count('waiting jobs in all classes', 88_310),
          at: countedAt,
          missing: Missing,
        },
        { title: 'Horizon' },
      ),
    ),
    ...problems(404, 503),
  },
};
export type HorizonJson = ReplyOf<typeof horizonSchema>;

const OldestJob = closed(
  {
    ...dueJob,
    why: Type.Enum([...whyCodes], { description: 'why it waits, as in the job' }),
    says: Type.Array(CapacityReason, { description: 'what the notifiers say about it' }),
  },
  { title: 'OldestJob' },
);

export const TopicAttention = closed(
  {
    topic: TopicName,
    title: text('title of the topic', 'Close unpaid orders'),
    state: textOrNull<TopicState>('state of the topic; null: not registered', 'paused'),
    reasons: Type.Array(Type.Enum(attentionReasons), {
      description: `failing: at least ${contractLimits.failingPercent} % of at least ${contractLimits.failingAttempts} attempts failed within 5 minutes, or the last ${contractLimits.failingInRow} in a row, of a topic without jobs within the same time; not after a success, once none has failed for a minute; today, where it has jobs and the notifiers of this instance have not called it · late: a due job waits for more than a minute, of a pull topic for more than alerts.pullLate · not_pulled: clients pull its jobs, one is due for more than a minute, and no client holds a lease · dead_letters: it has some · unreadable, unknown_broker, offline, paused, not_registered: it holds jobs (HeldTopic)`,
      examples: [['dead_letters']],
    }),
    since: instantOrNull(
      'since when, of paused or offline while it holds jobs, else of the first reason: failing: the first failure after the last success, while each attempt fails · dead_letters: the first death of the most frequent cause · late, not_pulled: the due time of the oldest job · paused, offline: the last change of the topic, which can have been in this state before; others: null',
    ),
    oldest: orNull(OldestJob, 'the due job that waits for the longest time; null: none is due'),
    next: orNull(
      closed(dueJob, { title: 'NextJob' }),
      'the delayed job that is due next; null: a job is due, or none is delayed',
    ),
    late: orNull(
      closed(
        {
          id: JobId,
          since: instant(
            'when its first attempt since the push or the last requeue was due; where it is not kept, the oldest one that is',
          ),
          atLeast: flag(
            'its first attempt is not kept; or others retry, too, and one of them may wait for longer',
            true,
          ),
        },
        { title: 'LateJob' },
      ),
      'the waiting job that was due first, as far as dq knows: a due one, or one that retries; null: none',
    ),
    receiver: textOrNull(
      'what dq calls: the callback URL, or the target; null: clients pull the jobs, or it is not registered',
      'https://shop.example.org/callbacks/order-close',
    ),
    calls: orNull(
      closed({
        delivered: count('successful attempts of the last 5 minutes', 120),
        failed: count('failed attempts of the last 5 minutes', 4),
        failuresInRow: count('failed attempts since the last success', 0),
        since: instantOrNull('when the first of these failed; null: the last attempt succeeded'),
      }),
      'what the notifiers of this instance count; null: in the summary no failure, or no answer',
    ),
    failure: orNull(
      closed({
        reason: attemptReasonOrNull('why the attempt failed'),
        status: countOrNull('HTTP status of the reply; null without one', 502),
        detail: text(
          'the failure of a call without a reply, in words; empty otherwise',
          'ECONNREFUSED 127.0.0.1:8080',
        ),
      }),
      'the last failure since the last success, or within 5 minutes; null: none, or unknown',
    ),
    dead: orNull(
      closed(
        {
          count: count('dead letters of this cause', 2),
          deadReason: DeadReason,
          lastReason: LastReason,
          status: countOrNull('HTTP status of the last attempt', 500),
        },
        { title: 'DeadCause' },
      ),
      'the most frequent cause of the dead letters that are left; null: none, or unknown',
    ),
    today: StatCounts,
    states: StateCounts,
  },
  { title: 'TopicAttention' },
);
export type TopicAttentionJson = JsonOf<typeof TopicAttention>;

const HeldTopics = closed(
  {
    topics: count('topics that hold jobs', 2),
    jobs: count('delayed and ready jobs of these topics', 1240),
    most: Type.Array(
      closed(
        {
          topic: TopicName,
          why: Type.Enum(heldReasons, {
            description:
              'unreadable: its stored record is · unknown_broker: the configuration lacks its broker · otherwise its state',
          }),
          jobs: count('delayed and ready jobs', 1200),
        },
        { title: 'HeldTopic' },
      ),
      { description: `at most ${contractLimits.attentionMax} of them, those with the most jobs first` },
    ),
  },
  { title: 'HeldTopics' },
);

const OpenIncident = closed(
  {
    kind: Type.Enum(incidentKinds, { description: 'what fails' }),
    about: text('the failing part: a role, a server, a receiver, a topic; else empty', 'notifier'),
    since: instant('when dq recorded it'),
    detail: text('one sentence', 'dq-notifier died 10 times within 60 s'),
    ...incidentHelp,
  },
  { title: 'OpenIncident' },
);

const LeftBehind = closed(
  {
    code: Type.Enum([...leftBehindCodes], {
      description:
        'jobs_db: jobs of jobs.db · registry_db: topics, tokens and schedules of registry.db · redis, mysql: a server that was in use before',
    }),
    text: text('one of the warnings', jobsOfFile(812).text),
    values: Type.Record(Type.String(), Type.Union([Type.Number(), Type.String()]), {
      description: 'numbers and names in the text',
      examples: [{ jobs: 812 }],
    }),
  },
  { title: 'LeftBehind' },
);

const onlyReaders = 'only for callers with the scope read for every topic; others get an empty list';

const Summary = closed(
  {
    topics: closed(
      each(topicStates, (state) => count(`topics with the state ${state}`, 1)),
      { title: 'TopicNumbers' },
    ),
    states: StateCounts,
    today: StatCounts,
    oldestOverdueMs: countOrNull(
      `${ofOldest}; null: none is due, or the caller does not see every topic`,
      120,
    ),
    orphaned: count('stored jobs without a registered topic', 0),
    held: HeldTopics,
    ready: flag('dq can work, as /readyz', true),
    warnings: texts(`dangerous settings, and why dq is not ready; ${onlyReaders}`),
    leftBehind: Type.Array(LeftBehind, {
      description: `what lies in a store or registry that is not in force; ${onlyReaders}`,
    }),
    incidents: Type.Array(OpenIncident, { description: `open incidents of this instance; ${onlyReaders}` }),
    attention: Type.Array(TopicAttention, {
      description: `at most ${contractLimits.attentionMax} topics that need attention, the worst first`,
    }),
    attentionCount: count('topics that need attention', 0),
    at: instant('when the sums were made; they are kept for a second or longer'),
    now: instant("the daemon's time"),
    operations: Type.Array(
      closed(
        {
          id: text('id of the operation', '0a1b2c3d4e5f'),
          kind: Type.Enum(operationKinds, { description: 'what it does with the jobs' }),
          state: text('not_started or running', 'running'),
          topic: textOrNull('null: several', 'order.close'),
          matched: countOrNull('null: counted on the way', 1240),
          processed: count('jobs with a result', 812),
        },
        { title: 'OpenOperation' },
      ),
      { description: 'open operations on topics of the caller; empty while the registry is unavailable' },
    ),
    missing: Missing,
  },
  { title: 'Summary' },
);
export type SummaryJson = JsonOf<typeof Summary>;

export const summarySchema = {
  operationId: 'summary',
  tags: ['operation'],
  summary: 'The state of dq in one reply',
  description: 'Covers the topics that the caller may see. today: since midnight in the option timezone.',
  response: { 200: reply('the summary', Summary), ...problems(503) },
};
