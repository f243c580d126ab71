// /v1/stats: what happened and what is stored, per topic. /v1/processes: this instance's processes, as the master sees them.

import { Readable } from 'node:stream';
import { Type } from 'typebox';
import { createCalendar } from '../../core/calendar.ts';
import { DqError } from '../../core/errors.ts';
import { jobStates } from '../../core/job.ts';
import type { StateCounts } from '../../ports/job-store.ts';
import { statNames } from '../../ports/registry.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { Missing } from '../http/paging.ts';
import { mayTouch } from '../http/route-access.ts';
import { closed, Instant, nullable, problems, reply, topicParam } from '../http/schemas.ts';
import type { MasterQuestions } from '../master-questions.ts';
import { noCounts, noJobs, statsText } from './stats-table.ts';
import { nameToFind } from './topics/topic-routes.ts';

const tags = ['operation'];
const named = (names: readonly string[]) =>
  closed(Object.fromEntries(names.map((name) => [name, Type.Integer()])));
const Counts = named(statNames);
const States = named(jobStates);

export function statsRoutes(api: Api, { role }: ApiContext, questions: MasterQuestions): void {
  const { registry, store, topics, config, clock } = role;
  const calendar = createCalendar(config.timezone);

  api.get(
    '/v1/stats',
    {
      schema: {
        operationId: 'stats',
        tags,
        summary: 'Counters and stored jobs per topic',
        response: {
          200: reply(
            'now',
            closed({
              topics: Type.Array(
                closed({
                  topic: Type.String(),
                  registered: Type.Boolean(),
                  total: Counts,
                  today: Counts,
                  states: States,
                }),
              ),
              states: States,
              oldestOverdueMs: nullable('integer', {
                description: 'how long the oldest ready job has been due',
              }),
              orphaned: Type.Integer({
                description: 'jobs whose topic is not registered; held, never dropped',
              }),
              missing: Missing,
            }),
          ),
          ...problems(503),
        },
      },
      config: { access: { scope: 'read', topics: 'handler' } },
    },
    async (request, answer) => {
      await topics.refresh();
      const counts = await store.admin.counts();
      const day = calendar.dayOf(clock.now());
      const text = await statsText({
        topics,
        counts,
        statsPage: (after, of) => registry.statsPage(after, of),
        day,
        maySee: (topic) => mayTouch(request, topic),
      });
      return answer.type('application/json; charset=utf-8').send(Readable.from(text) as never);
    },
  );

  api.get(
    '/v1/topics/:topic/stats',
    {
      schema: {
        operationId: 'topicStats',
        tags: ['topics'],
        summary: 'Counters and stored jobs of a topic',
        params: closed(topicParam),
        response: {
          200: reply(
            'now',
            closed({ topic: Type.String(), total: Counts, today: Counts, states: States, missing: Missing }),
          ),
          ...problems(404, 503),
        },
      },
      config: { access: { scope: 'read', topics: 'path' } },
    },
    async (request) => {
      const topic = nameToFind(request.params.topic);
      if ((await registry.remains(topic)) === null) throw topicNotFound(topic);
      const counters = await registry.stats(topic, calendar.dayOf(clock.now()));
      const counts = await store.admin.counts();
      return {
        topic,
        total: counters?.total ?? noCounts,
        today: counters?.today ?? noCounts,
        states: byName(counts.topics).get(topic) ?? noJobs,
        missing: counts.missing,
      };
    },
  );

  api.get(
    '/v1/processes',
    {
      schema: {
        operationId: 'processes',
        tags,
        summary: 'The processes of this instance',
        response: { 200: reply('now', closed({ processes: Type.Array(Process) })), ...problems(503) },
      },
      config: { access: { scope: 'read', topics: 'none' } },
    },
    async () => {
      const processes = await questions.processes();
      if (processes === null) throw new DqError('unavailable', 'the master does not answer');
      return {
        processes: processes.map(({ startedAt, ...rest }) => ({
          ...rest,
          startedAt: new Date(startedAt).toISOString(),
        })),
      };
    },
  );
}

/** An object would answer for a topic called `constructor` that has no jobs. */
function byName(topics: Readonly<Record<string, StateCounts>>): ReadonlyMap<string, StateCounts> {
  return new Map(Object.entries(topics));
}

const Process = Type.Object({
  title: Type.String(),
  role: Type.Enum(['master', 'store', 'server', 'timer', 'notifier', 'upkeep']),
  pid: Type.Integer(),
  version: Type.String(),
  generation: Type.Integer({ description: '1 for the start, one more for each reload' }),
  state: Type.Enum(['starting', 'ready', 'draining']),
  startedAt: Instant,
  restarts: Type.Integer(),
  inFlight: Type.Integer(),
  rssBytes: Type.Integer(),
  cpuPercent: Type.Number({ description: 'of one core' }),
});
