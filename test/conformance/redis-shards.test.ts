// The smoke cases on three Redis servers as one job store, with ids on one and on all of them. Orders and
// bounds hold within a partition, so their cases run only where one shard takes all ids. redis-whole.test.ts
// runs all cases.

import { afterAll, beforeAll, describe, it } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { lacks } from '../support/services.ts';
import { underTest } from '../support/shards.ts';
import { casesOfAllPartitions, casesOfOnePartition, smokeCases } from './smoke.ts';

describe.skipIf(await lacks('redis'))('redis shards', () => {
  let servers: readonly RedisServer[] = [];
  beforeAll(async () => {
    servers = await Promise.all([startRedis(), startRedis(), startRedis()]);
  });
  afterAll(async () => {
    await Promise.all(servers.map((server) => server.stop()));
  });

  describe('one of three takes all ids', () => {
    for (const each of new Set([...smokeCases, ...casesOfOnePartition]))
      it(each.title, () => each.run(() => underTest(servers, (at) => at === 1)));
  });

  describe('all of three take ids', () => {
    for (const each of smokeCases.filter((one) => casesOfAllPartitions.includes(one)))
      it(each.title, () => each.run(() => underTest(servers)));
  });
});
