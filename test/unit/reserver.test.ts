// Tests what a reserver tells about its partition.
import { expect, it, onTestFinished } from 'vitest';
import type { CapacityGrant } from '../../src/notifier/capacity-grants.ts';
import { PartitionFailures } from '../../src/notifier/partition-failures.ts';
import { Reserver, type ReserverOptions } from '../../src/notifier/reserver.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { until } from '../support/until.ts';

it.each(['healing', 'failing'] as const)('%s: not after this instance leads no more', async (flag) => {
  const failures = new PartitionFailures(silentLog);
  failures.add(0);
  const leadership = { leads: true };
  const reserver = new Reserver({
    ctx: {
      ...{ owner: { instance: 1, incarnation: 1 }, log: silentLog, config: { pollCeiling: 60_000 } },
      store: {
        jobs: {
          async reserve() {
            if (flag === 'failing')
              throw new StoreError({ kind: 'not_stored', code: 'overloaded', why: 'test' });
            return { jobs: [], more: false, isHealing: true };
          },
        },
      },
    } as unknown as ReserverOptions['ctx'],
    partition: 0,
    capacity: {
      ...{ isFull: false, requestKept: () => null, sleepMs: () => 60_000, endRequest: () => null },
      request: () => ({ slots: 1, isDivided: false, isShort: false }) as CapacityGrant,
    } as unknown as ReserverOptions['capacity'],
    starter: {
      ...{ callIsolated: () => {}, start: () => ({ hasKept: false, hasBuried: false }) },
    } as unknown as ReserverOptions['starter'],
    ...{ settler: { tokens: () => [] }, failures, leadership },
  });
  onTestFinished(() => reserver.drain(0));
  await reserver.start();
  await until('it is known', () => failures[flag].has(0));
  leadership.leads = false;
  reserver.wake();
  await until('it is forgotten', () => !failures[flag].has(0));
  expect(failures[flag].size).toBe(0);
});
