// /v1/stats: counters and stored jobs per topic.

import { Readable } from 'node:stream';
import { statsSchema, topicStatsSchema } from '../../contract/api/stats.ts';
import { createCalendar } from '../../core/calendar.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { mayTouch, needs } from '../http/route-access.ts';
import { noCounts, noJobs, statsText } from './stats-table.ts';
import { nameToFind } from './topics/topic-routes.ts';

export function statsRoutes(api: Api, { role }: ApiContext): void {
  const { registry, store, topics, config, clock } = role;
  const calendar = createCalendar(config.timezone);

  api.get('/v1/stats', { schema: statsSchema, config: needs('read', 'handler') }, async (request, answer) => {
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
  });

  api.get(
    '/v1/topics/:topic/stats',
    { schema: topicStatsSchema, config: needs('read', 'path') },
    async (request) => {
      const topic = nameToFind(request.params.topic);
      if ((await registry.remains(topic)) === null) throw topicNotFound(topic);
      const stats = await registry.stats(topic, calendar.dayOf(clock.now()));
      const counts = await store.admin.counts();
      return {
        topic,
        total: stats?.total ?? noCounts,
        today: stats?.today ?? noCounts,
        // A Map, because an object has inherited members: a topic can be called `constructor`.
        states: new Map(Object.entries(counts.topics)).get(topic) ?? noJobs,
        missing: counts.missing,
      };
    },
  );
}
