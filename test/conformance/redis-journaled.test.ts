// The suite on a standalone Redis with a journal. Copies its rings as for a notifier with many topics without
// capacity; both in one run, because it takes half a minute.

import { afterAll, beforeAll, describe } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { journaledUnderTest } from '../support/journaled-store.ts';
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

  exercise('a standalone Redis by a copy of its rings, with a journal', async () =>
    journaledUnderTest(
      await openEmpty(server, { clock: new SteppedClock(), capacitiesMax: -1, writer: '7.9' }),
    ),
  );
});
