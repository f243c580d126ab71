// /v1/stats: counters and stored jobs per topic. /v1/processes: the processes of this instance, as the master
// knows them.

import { Readable } from 'node:stream';
import { type TSchema, Type } from 'typebox';
import { createCalendar } from '../../core/calendar.ts';
import { DqError } from '../../core/errors.ts';
import { jobStates } from '../../core/job.ts';
import type { StateCounts } from '../../ports/job-store.ts';
import { statNames } from '../../ports/registry.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { Missing } from '../http/paging.ts';
import { mayTouch } from '../http/route-access.ts';
import {
  closed,
  count,
  instant,
  nullable,
  problems,
  reply,
  TopicName,
  text,
  topicParam,
} from '../http/schemas.ts';
import type { MasterQuestions } from '../master-questions.ts';
import { noCounts, noJobs, statsText } from './stats-table.ts';
import { nameToFind } from './topics/topic-routes.ts';

const tags = ['operation'];
const numbers = (title: string, names: readonly string[], what: string): TSchema =>
  closed(Object.fromEntries(names.map((name) => [name, count(`${name} ${what}`, 1)])), { title });
export const Counts = numbers('Counts', statNames, 'jobs or attempts, counted');
export const States = numbers('StateCounts', jobStates, 'jobs stored now');
const counters = { total: Counts, today: Counts, states: States };

const Stats = closed(
  {
    topics: Type.Array(
      closed(
        {
          topic: TopicName,
          registered: Type.Boolean({ description: 'the topic is registered', examples: [true] }),
          ...counters,
        },
        { title: 'TopicStatsLine' },
      ),
      { description: 'by name; only topics that the token covers' },
    ),
    states: States,
    oldestOverdueMs: nullable('integer', {
      description: 'how long the oldest ready job has been due; null: none is ready',
      examples: [120],
    }),
    orphaned: count('stored jobs without a registered topic; dq holds them and never drops them', 0),
    missing: Missing,
  },
  { title: 'Stats' },
);
const statsSchema = {
  operationId: 'stats',
  tags,
  summary: 'Counters and stored jobs per topic; today: since midnight in the option timezone',
  response: { 200: reply('the statistics', Stats), ...problems(503) },
};

const TopicStats = closed({ topic: TopicName, ...counters, missing: Missing }, { title: 'TopicStats' });
const topicStatsSchema = {
  operationId: 'topicStats',
  tags: ['topics'],
  summary: 'Counters and stored jobs of a topic',
  params: closed(topicParam),
  response: { 200: reply('the statistics', TopicStats), ...problems(404, 503) },
};

const Process = Type.Object(
  {
    title: text('name of the process', 'dq-notifier-0'),
    role: Type.Enum(['master', 'store', 'server', 'console', 'timer', 'notifier', 'upkeep'], {
      description: 'role of the process',
    }),
    alsoRuns: Type.Optional(
      Type.Array(Type.String(), { description: 'further roles in the same process', examples: [['timer']] }),
    ),
    pid: count('process id', 4711),
    version: text('version of dq that it runs', '1.0.0'),
    generation: count('1 for the start, plus one for each reload', 1),
    state: Type.Enum(['starting', 'ready', 'draining'], { description: 'state of the process' }),
    startedAt: instant('when it started'),
    restarts: count('how often the master has restarted it', 0),
    inFlight: count('requests or callbacks in flight', 12),
    rssBytes: count('resident memory in bytes', 94_371_840),
    cpuPercent: Type.Number({ description: 'CPU time in percent of one core', examples: [3.5] }),
  },
  { title: 'Process' },
);
const processesSchema = {
  operationId: 'processes',
  tags,
  summary: 'The processes of this instance',
  response: { 200: reply('all processes', closed({ processes: Type.Array(Process) })), ...problems(503) },
};

export function statsRoutes(api: Api, { role }: ApiContext, questions: MasterQuestions): void {
  const { registry, store, topics, config, clock } = role;
  const calendar = createCalendar(config.timezone);

  api.get(
    '/v1/stats',
    { schema: statsSchema, config: { access: { scope: 'read', topics: 'handler' } } },
    async (request, answer) => {
      await topics.refresh();
      const counts = await store.admin.counts();
      const day = calendar.dayOf(clock.now());
      const pieces = await statsText({
        topics,
        counts,
        statsPage: (after, of) => registry.statsPage(after, of),
        day,
        maySee: (topic) => mayTouch(request, topic),
      });
      return answer.type('application/json; charset=utf-8').send(Readable.from(pieces) as never);
    },
  );

  api.get(
    '/v1/topics/:topic/stats',
    { schema: topicStatsSchema, config: { access: { scope: 'read', topics: 'path' } } },
    async (request) => {
      const topic = nameToFind(request.params.topic);
      if ((await registry.remains(topic)) === null) throw topicNotFound(topic);
      const stats = await registry.stats(topic, calendar.dayOf(clock.now()));
      const counts = await store.admin.counts();
      return {
        topic,
        total: stats?.total ?? noCounts,
        today: stats?.today ?? noCounts,
        states: byName(counts.topics).get(topic) ?? noJobs,
        missing: counts.missing,
      };
    },
  );

  api.get(
    '/v1/processes',
    { schema: processesSchema, config: { access: { scope: 'read', topics: 'none' } } },
    async () => {
      const processes = await questions.processes();
      if (processes === null) throw new DqError('unavailable', 'master: no answer; try again');
      return {
        processes: processes.map(({ startedAt, ...rest }) => ({
          ...rest,
          startedAt: new Date(startedAt).toISOString(),
        })),
      };
    },
  );
}

/** A Map, because an object has inherited members: a topic can be called `constructor`. */
function byName(topics: Readonly<Record<string, StateCounts>>): ReadonlyMap<string, StateCounts> {
  return new Map(Object.entries(topics));
}
