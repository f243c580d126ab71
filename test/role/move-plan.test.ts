// The plan of `dq move` against the memory that 5,000,000 jobs took: a Redis with as much is accepted.

import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { planJobs } from '../../src/cli/commands/move.ts';
import { lacks, owned } from '../support/services.ts';
import { temporaryDirectory } from '../support/sqlite-store.ts';
import { defaultConfig } from './rig.ts';

it.skipIf(await lacks('redis'))(
  'jobs: rejects a Redis in which the move would wait, and no larger one',
  async () => {
    const redis = await owned('test', startRedis());
    const directory = temporaryDirectory();
    await owned('test', Promise.resolve({ stop: async () => directory.remove() }));
    const file = join(directory.path, 'jobs.db');
    writeFileSync(file, '');
    truncateSync(file, 1_257_242_624);
    const config = { ...defaultConfig, dataDir: directory.path, redis: [redis.url] };
    const plan = async (maxmemory: string) => {
      await redis.ask('CONFIG', 'SET', 'maxmemory', maxmemory);
      return planJobs(config, 5_000_000);
    };
    // Redis had 1.40 GiB after the move.
    const { line, refused } = await plan('1700mb');
    expect(line).toContain('(needs about 1.4 GiB, 1.5 GiB free)');
    expect(refused).toBeNull();
    expect((await plan('1550mb')).refused).toContain('raise maxmemory');
  },
);
