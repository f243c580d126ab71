// /v1/stats: counters and stored jobs per topic. /v1/processes: the processes of this instance, as the master
// knows them.

import { Readable } from 'node:stream';
import { processesSchema, statsSchema, topicStatsSchema } from '../../contract/api/stats.ts';
import { createCalendar } from '../../core/calendar.ts';
import { DqError } from '../../core/errors.ts';
import type { StateCounts } from '../../ports/job-store.ts';
import type { MasterQuestions } from '../../process/master-questions.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { mayTouch } from '../http/route-access.ts';
import { noCounts, noJobs, statsText } from './stats-table.ts';
import { nameToFind } from './topics/topic-routes.ts';

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
