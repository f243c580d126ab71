// Tests when a hold of leases begins and ends, on a stepped clock. That no lease expires during the hold
// after a start or an outage is a rule of the simulated worlds.
import { describe, expect, it, onTestFinished } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { pullOwner } from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import type { JobStore } from '../../src/ports/job-store.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { jobOf, request } from '../conformance/trial.ts';
import { openEmpty } from '../support/redis-store.ts';
import { lacks, owned } from '../support/services.ts';
import { openSqliteStore } from '../support/sqlite-store.ts';
import { SteppedClock } from '../support/stepped-clock.ts';

const none = { returned: 0, poisoned: [], more: false };

interface Stepped {
  readonly jobs: JobStore;
  /** Time passes. */
  step(ms: number): Promise<void>;
  /** The clock is set; no time passes. */
  set(ms: number): Promise<void>;
}

async function steppedSqlite(): Promise<Stepped> {
  const [clock, passed] = [new SteppedClock(), new SteppedClock(0)];
  const clocks = { clock: () => clock.now, monotonic: () => passed.now };
  const { client, close } = await openSqliteStore({ ...clocks, recoverHoldMs: 5_000 });
  onTestFinished(close);
  return {
    jobs: client.store.jobs,
    async step(ms) {
      await clock.skip(ms);
      await passed.skip(ms);
    },
    set: (ms) => clock.skip(ms),
  };
}

async function steppedRedis(): Promise<Stepped> {
  const server = await owned('test', startRedis());
  const clock = new SteppedClock();
  const { store, close } = await openEmpty(server, { clock, recoverHoldMs: 5_000 });
  onTestFinished(close);
  const step = (ms: number) => clock.skip(ms);
  return { jobs: store.jobs, step, set: step };
}

const stores = [
  { name: 'SQLite', open: steppedSqlite, isMissing: false },
  { name: 'Redis', open: steppedRedis, isMissing: await lacks('redis') },
];

describe.each(stores)('recover, $name', ({ open, isMissing }) => {
  it.skipIf(isMissing)('begins no hold after a time without leases', async () => {
    const { jobs, step } = await open();
    const recoverTimes = async (times: number) => {
      for (let n = 0; n < times; n += 1, await step(upkeepLimits.recoverEveryMs)) await jobs.recover(0, 10);
    };
    await jobs.push([jobOf('1')]);
    const [held] = (await jobs.reserve(0, request(1))).jobs;
    if (held === undefined) throw new Error('it is ready');
    // The hold after the start ends.
    await recoverTimes(6);
    await jobs.release([held]);
    await recoverTimes(10);
    await jobs.reserve(0, request(1, null, pullOwner, 1_500));
    const listed = [];
    for (let n = 0; n < 3; n += 1, await step(upkeepLimits.recoverEveryMs))
      listed.push((await jobs.recover(0, 10)).pulled?.length ?? 0);
    expect(listed).toEqual([0, 0, 1]);
  });

  it.skipIf(isMissing)('recover: a clock that is set back does not prolong the hold', async () => {
    const { jobs, step, set } = await open();
    expect(await jobs.recover(0, 10)).toEqual(none);
    await set(-3_600_000);
    await jobs.push([jobOf('1')]);
    await jobs.reserve(0, request(1, null, undefined, 1_000));
    const results = [];
    for (let n = 0; n <= 5; n += 1, await step(1_000)) results.push((await jobs.recover(0, 10)).returned);
    expect(results).toEqual([0, 0, 0, 0, 0, 1]);
  });

  it.skipIf(isMissing).each([
    { when: 'before', beforeMs: -600_000, duringMs: 0 },
    { when: 'during', beforeMs: 0, duringMs: -29_000 },
  ])('a clock that is set back $when an outage does not hide it', async ({ beforeMs, duringMs }) => {
    const { jobs, step, set } = await open();
    const recoverTimes = async (times: number) => {
      const returned = [];
      for (let n = 0; n < times; n += 1, await step(upkeepLimits.recoverEveryMs))
        returned.push((await jobs.recover(0, 10)).returned);
      return returned;
    };
    await jobs.push([jobOf('1')]);
    const [first] = (await jobs.reserve(0, request(1))).jobs;
    if (first === undefined) throw new Error('it is ready');
    // The hold after the start ends.
    await recoverTimes(6);
    await jobs.release([first]);
    await set(beforeMs);
    await jobs.reserve(0, request(1, null, undefined, 3_000));
    expect(await jobs.recover(0, 10)).toEqual(none);
    await step(28_000);
    await set(duringMs);
    expect(await recoverTimes(6)).toEqual([0, 0, 0, 0, 0, 1]);
  });
});

it.skipIf(await lacks('redis'))(
  'recover, Redis: a pulled lease further ahead than any may be ends at its length from now',
  async () => {
    const { jobs, step, set } = await steppedRedis();
    await set(26 * 3_600_000);
    await jobs.push(['a', 'b'].map((id) => jobOf(id)));
    await jobs.reserve(0, request(1, null, pullOwner, 20_000));
    await set(-26 * 3_600_000);
    await jobs.reserve(0, request(1, null, pullOwner, limits.pullLeaseMsMax));
    const seconds: (string | undefined)[] = [];
    for (let n = 0; n <= 21; n += 1, await step(1_000))
      seconds.push((await jobs.recover(0, 10)).pulled?.[0]?.lease.id);
    expect(seconds).toEqual([...new Array(20).fill(undefined), 'a', 'a']);
  },
);

it.skipIf(await lacks('redis'))(
  'recover, Redis: a pulled lease whose token hides its length is not cut after a second step back',
  async () => {
    const { jobs, step, set } = await steppedRedis();
    await jobs.push([jobOf('first')]);
    await set(-3_600_000);
    await jobs.reserve(0, request(1, null, pullOwner, 20_000));
    await set(-limits.pullLeaseMsMax);
    for (let n = 0; n <= 40; n += 1, await step(1_000))
      expect((await jobs.recover(0, 10)).pulled ?? []).toEqual([]);
  },
);
