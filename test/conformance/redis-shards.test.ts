// The suite on three Redis servers as one job store. Orders and bounds hold within a partition, so their
// cases run only where one shard takes all ids, beside the smoke cases; all others run with ids on all three.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { lacks } from '../support/services.ts';
import { underTest } from '../support/shards.ts';
import { cases } from './exercise.ts';
import { smokeCases } from './smoke.ts';

/** Cases of an order, a bound or distinct numbers: they hold for the jobs of each shard. */
const ofOnePartition = [
  'promote: orders several topics by due time, turns by their first jobs',
  'push: topics of a call get turns in the order of their first jobs',
  'reserve: takes turns over the topics of a priority',
  'reserve: takes the earliest due of a topic first, equal ones by version',
  'dead requeue: oldest death first, at most max; returns whether more are left',
  'dead purge: oldest death first, at most max; returns whether more are left',
  'forget: removes older entries, the oldest end first, at most max',
  'expire: removes older dead letters, the oldest death first, at most max',
  'alerts due: names topics with owed alerts, the longest owed first',
  'position: counts the jobs that reserve takes before',
  'hint due: sent only when a push becomes the earliest delayed job',
  'hint ready: sent only when the ready queue stops being empty',
  'pull: a topic gets jobs while it has fewer leases than are left',
  'numbers: each lease of a reserve has its own token',
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
    const ordered = cases.filter(({ title }) => ofOnePartition.includes(title));
    for (const each of new Set([...smokeCases, ...ordered]))
      it(each.title, () => each.run(() => underTest(servers, (at) => at === 1)));
  });

  describe('all of three take ids', () => {
    it('every case of one partition exists', () => {
      const titles = cases.map(({ title }) => title);
      expect(titles.filter((title) => ofOnePartition.includes(title)).sort()).toEqual(
        [...ofOnePartition].sort(),
      );
    });
    for (const each of cases.filter(({ title }) => !ofOnePartition.includes(title)))
      it(each.title, () => each.run(() => underTest(servers)));
  });
});
