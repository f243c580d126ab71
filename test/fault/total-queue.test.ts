// Smoke runs of the total-queue checker: every process of dq is killed and frozen, and so are the receivers
// and the servers. total-queue-stores.test.ts has the other stores.
import { it } from 'vitest';
import { lacks } from '../support/services.ts';
import { expectKeptPromises } from '../support/total-queue.ts';

it('total queue: no promise is broken on the embedded store', () =>
  expectKeptPromises('smoke', '--store', 'sqlite', '--seed', '7', '--seconds', '12'));

it.skipIf((await lacks('redis')) || (await lacks('mysql')))(
  'total queue: with a journal no promise is broken, although Redis loses everything',
  () => expectKeptPromises('smoke', '--store', 'redis', '--journal', '--seed', '5', '--seconds', '12'),
);
