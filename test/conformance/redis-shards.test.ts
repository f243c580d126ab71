// Three Redis servers are one job store. Order is kept within a partition, so what a case says of order holds where one shard
// takes all ids; the other cases hold wherever ids go.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { lacks } from '../support/services.ts';
import { underTest } from '../support/shards.ts';
import { cases } from './exercise.ts';

/** What they say of all jobs is true of those of each shard. */
const ofOnePartition = [
  'promote: takes the jobs of several topics by their times, and gives turns by the first of each',
  'push: topics of one call have their turns in the order of their first jobs',
  'reserve: goes round the topics of a priority, whatever their queues',
  'reserve: takes the earliest due of a topic first, equal ones by version',
  'dead requeue: takes the oldest death first, at most max, and says whether more are left',
  'dead purge: takes the oldest death first, at most max, and says whether more are left',
  'forget: removes what ended longer ago than that, the oldest end first, at most max',
  'expire: removes dead letters that died longer ago than that, the oldest first, at most max',
  'alerts due: names the topics that are owed something, the longest waiting first',
  'hint due: comes when a push becomes the earliest delayed job, and only then',
  'hint ready: comes when the ready queue stops being empty, and only then',
];

describe.skipIf(await lacks('redis'))('redis shards', () => {
  let servers: readonly RedisServer[] = [];
  beforeAll(async () => {
    servers = await Promise.all([startRedis(), startRedis(), startRedis()]);
  });
  afterAll(async () => {
    await Promise.all(servers.map((server) => server.stop()));
  });

  describe('one of three takes all ids', () => {
    for (const each of cases) it(each.title, () => each.run(() => underTest(servers, (at) => at === 1)));
  });

  describe('all of three take ids', () => {
    it('every case of order is one that there is', () => {
      const titles = cases.map(({ title }) => title);
      expect(titles.filter((title) => ofOnePartition.includes(title)).sort()).toEqual(
        [...ofOnePartition].sort(),
      );
    });
    for (const each of cases.filter(({ title }) => !ofOnePartition.includes(title)))
      it(each.title, () => each.run(() => underTest(servers)));
  });
});
