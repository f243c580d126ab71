// A smoke run of the total-queue checker: every process of dq is killed and frozen, and so are the receivers.
// total-queue-stores.test.ts has the other stores.
import { it } from 'vitest';
import { expectKeptPromises } from '../support/total-queue.ts';

it('total queue: no promise is broken on the embedded store', () =>
  expectKeptPromises('smoke', '--store', 'sqlite', '--seed', '7', '--seconds', '12'));
