// The suite on a standalone Redis.

import { afterAll, beforeAll, describe } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { openEmpty } from '../support/redis-store.ts';
import { lacks } from '../support/services.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { exercise } from './exercise.ts';

describe.skipIf(await lacks('redis'))('redis', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  exercise('a standalone Redis', () => openEmpty(server, { clock: new SteppedClock() }));
});
