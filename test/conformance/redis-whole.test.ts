// The whole suite on a Cluster in one bucket, and on three Redis servers as one job store: before a release.
// The slow tests run its smoke cases (redis-groups.test.ts, redis-shards.test.ts).

import { afterAll, beforeAll, describe, it } from 'vitest';
import { type RedisServer, startRedisServers } from '../../scripts/services/redis.ts';
import { type RedisCluster, startRedisCluster } from '../../scripts/services/redis-cluster.ts';
import { openGroup } from '../support/redis-store.ts';
import { lacks } from '../support/services.ts';
import { underTest } from '../support/shards.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { cases } from './exercise.ts';
import { casesOfAllPartitions } from './smoke.ts';

const missing = await lacks('redis');

describe.skipIf(missing)('cluster', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    // No test here needs a failover, and a node of a busy machine is silent for seconds.
    cluster = await startRedisCluster({ nodeTimeoutMs: 60_000 });
  });
  afterAll(() => cluster.stop());
  // Hints travel between nodes: late, in any order, or not at all. The poll ceiling covers that.
  for (const each of cases.filter(({ title }) => !title.startsWith('hint')))
    it(each.title, () =>
      each.run(() => openGroup(cluster.url, cluster.masters, { clock: new SteppedClock() })),
    );
});

describe.skipIf(missing)('all of three shards take ids', () => {
  let servers: readonly RedisServer[] = [];
  beforeAll(async () => {
    servers = await startRedisServers(3);
  });
  afterAll(async () => {
    await Promise.all(servers.map((server) => server.stop()));
  });
  for (const each of casesOfAllPartitions) it(each.title, () => each.run(() => underTest(servers)));
});
