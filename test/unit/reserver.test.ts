// Tests what a reserver tells about its partition.
import { expect, it, onTestFinished } from 'vitest';
import type { CapacityGrant } from '../../src/notifier/capacity-grants.ts';
import { PartitionFailures } from '../../src/notifier/partition-failures.ts';
import { Reserver, type ReserverOptions } from '../../src/notifier/reserver.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { until } from '../support/until.ts';

const rejected = new StoreError({ kind: 'not_stored', code: 'overloaded', why: 'test' });

/** A reserver of partition 0, whose notifier has capacity for one job. */
function startTrial(
  reserve: () => Promise<object>,
  ofCapacity: object = {},
  start = () => ({ hasKept: false, hasBuried: false, isLate: false }),
) {
  const failures = new PartitionFailures(silentLog);
  failures.add(0);
  const leadership = { leads: true };
  const reserver = new Reserver({
    ctx: {
      ...{ owner: { instance: 1, incarnation: 1 }, log: silentLog, config: { pollCeiling: 60_000 } },
      store: { jobs: { reserve } },
    } as unknown as ReserverOptions['ctx'],
    partition: 0,
    capacity: {
      ...{ isFull: false, requestKept: () => null, sleepMs: () => 60_000, endRequest: () => null },
      request: () => ({ slots: 1, isDivided: false, isShort: false }) as CapacityGrant,
      ...ofCapacity,
    } as unknown as ReserverOptions['capacity'],
    starter: {
      callIsolated: () => {},
      start,
    } as unknown as ReserverOptions['starter'],
    ...{ settler: { tokens: () => [] }, failures, leadership },
  });
  onTestFinished(() => reserver.drain(0));
  return { reserver, failures, leadership };
}

it.each(['healing', 'failing'] as const)('%s: not after this instance leads no more', async (flag) => {
  const { reserver, failures, leadership } = startTrial(async () => {
    if (flag === 'failing') throw rejected;
    return { jobs: [], more: false, isHealing: true };
  });
  await reserver.start();
  await until('it is known', () => failures[flag].has(0));
  leadership.leads = false;
  reserver.wake();
  await until('it is forgotten', () => !failures[flag].has(0));
  expect(failures[flag].size).toBe(0);
});

it('failing: wants no capacity from the end of its own request on', async () => {
  const wants: (readonly [isShort: boolean, isHungry: boolean])[] = [];
  let isFailing = false;
  const { reserver } = startTrial(
    async () => {
      if (isFailing) throw rejected;
      return { jobs: [], more: false };
    },
    {
      isFull: true,
      request: () => ({ slots: 1, isDivided: true, isShort: true }) as CapacityGrant,
      endRequest: () => void wants.push([reserver.isShort, reserver.isHungry]),
    },
  );
  await reserver.start();
  await until('it wants capacity', () => reserver.isShort && reserver.isHungry);
  isFailing = true;
  reserver.wake();
  await until('its request has ended', () => wants.length > 0);
  expect(wants[0]).toEqual([false, false]);
});

it('reserves again at once after an answer that came too late for all its jobs, and only once', async () => {
  let reserves = 0;
  /** reserves so far, at each sleep */
  const atSleeps: number[] = [];
  const sleepMs = () => {
    atSleeps.push(reserves);
    return 60_000;
  };
  const { reserver } = startTrial(
    async () => {
      reserves += 1;
      return { jobs: [{ topic: 't' }], more: true };
    },
    { sleepMs },
    () => ({ hasKept: false, hasBuried: false, isLate: true }),
  );
  await reserver.start();
  await until('it sleeps', () => atSleeps.length >= 1);
  reserver.wake();
  await until('it sleeps again', () => atSleeps.length >= 2);
  expect(atSleeps.slice(0, 2)).toEqual([2, 4]);
});
