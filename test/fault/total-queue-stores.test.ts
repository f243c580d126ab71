// The total-queue checker on each store, before a release: failovers, lost data, and 20,000 jobs on the
// embedded store.
import { it } from 'vitest';
import { lacks } from '../support/services.ts';
import { expectKeptPromises } from '../support/total-queue.ts';

const timeout = 900_000;
const isMissing = (await lacks('redis')) || (await lacks('mysql'));

it('total queue: embedded store, 20,000 jobs', { timeout }, () =>
  expectKeptPromises('standard', '--store', 'sqlite', '--seed', '1'),
);

it
  .skipIf(isMissing)
  .each([
    'redis --fsync always',
    'redis --fsync everysec',
    'shards --fsync always',
    'shards --journal',
    'sentinel --fsync always',
    'sentinel --journal',
    'cluster --fsync always',
    'cluster --journal',
  ])('total queue: no promise is broken on %s', { timeout }, (store) =>
  expectKeptPromises('smoke', '--store', ...store.split(' '), '--seed', '3', '--seconds', '60'),
);
