// Tests how the instants of schedules become jobs on a real store and registry: by wrong clocks, late ones,
// and those that cannot be made. That each is made once, also by processes that die between the steps, is a
// rule of the simulated worlds (test/sim/ticks.ts).
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { JobKey } from '../../src/core/job.ts';
import { tickId } from '../../src/core/job-id.ts';
import type { ScheduleRecord } from '../../src/core/schedule.ts';
import type { Registry } from '../../src/ports/registry.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { Ticker } from '../../src/upkeep/ticker.ts';
import { until } from '../support/until.ts';
import { type Rig, startRig } from './rig.ts';

const second = 1_000;

const record = (name: string, more: Partial<ScheduleRecord> = {}): ScheduleRecord => ({
  ...{
    ...{ name, topic: 't', cron: null, everyMs: second, timezone: 'UTC', createdAt: Date.now() },
    updatedAt: Date.now(),
  },
  ...{
    body: '{}',
    ...{ isBase64: false, contentType: 'application/json', missed: 'skip', isPaused: false, revision: 1 },
  },
  ...more,
});

async function ticking(rig: Rig, registry: Registry = rig.registry): Promise<Ticker> {
  const ticker = new Ticker(rig.context({ registry }));
  await ticker.start();
  onTestFinished(() => ticker.drain(5_000));
  return ticker;
}

const idsOf = async (rig: Rig) =>
  (await rig.store.jobs.search({ topic: 't' }, 1_000, null)).items.map(({ id }) => id);

describe('the instants of a schedule', () => {
  it('end in the turn after one in which the registry did not answer', async () => {
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:9');
    const created = Date.now() - 10 * second;
    await rig.registry.createSchedule(record('s', { createdAt: created }), created + 9 * second);
    const calls: string[] = [];
    const registry = new Proxy(rig.registry, {
      get: (target, name: keyof Registry) => (a: never, b: never, c: never) => {
        if (name === 'endTicks') calls.push(JSON.stringify(a));
        if (name === 'claimSchedules') calls.push(name);
        if (calls.length === 2) throw new StoreError({ kind: 'not_stored', code: 'busy' });
        return (target[name] as (...args: never[]) => unknown)(a, b, c);
      },
    });
    await ticking(rig, registry);
    await until('the schedule ends again', () => calls.length > 3);
    const [claim, lost, again, next] = calls;
    expect([claim, again, next]).toEqual(['claimSchedules', lost, 'claimSchedules']);
    expect(lost).toContain('"name":"s"');
  });

  it('that are due wait for one page of the check for a wrong clock, not for all', async () => {
    const rig = await startRig();
    const now = Date.now();
    for (let n = 0; n <= 2 * upkeepLimits.tickCheckMax; n++)
      await rig.registry.createSchedule(
        record(`s${n}`, { everyMs: 3_600 * second, createdAt: now }),
        now + 3_600 * second,
      );
    const { registry } = rig;
    const calls: string[] = [];
    await ticking(rig, {
      ...registry,
      schedules: (after, limit) => {
        calls.push('page');
        return registry.schedules(after, limit);
      },
      claimSchedules: (...args) => {
        calls.push('claim');
        return registry.claimSchedules(...args);
      },
    });
    await until('all are checked', () => calls.filter((one) => one === 'page').length === 4);
    expect(calls.join(' ')).toMatch(/^page claim page claim page claim page/);
  });

  it('are left to others by a process whose machine was suspended after its claim', async () => {
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:9');
    const created = Date.now() - 100 * second;
    const slow = { everyMs: 100 * second, createdAt: created };
    await rig.registry.createSchedule(record('s', slow), created + 100 * second);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    onTestFinished(() => void vi.useRealTimers());
    const clock = { now: Date.now, read: async () => Date.now(), known: async () => Date.now() };
    const registry: Registry = {
      ...rig.registry,
      async claimSchedules(...args) {
        const due = await rig.registry.claimSchedules(...args);
        // performance.now() stands still.
        vi.setSystemTime(Date.now() + upkeepLimits.tickClaimMs);
        return due;
      },
    };
    const ticker = new Ticker(rig.context({ registry, clock }));
    await ticker.start();
    await ticker.drain(5_000);
    expect(await idsOf(rig)).toEqual([]);
  });

  it('are made by the clock of the store from the first turn on', async () => {
    // The clock of this machine is an hour ahead.
    const rig = await startRig({ clock: () => Date.now() - 3_600 * second });
    await rig.topic('t', 'http://127.0.0.1:9');
    const created = Date.now() - 3_700 * second;
    const one = record('one', { everyMs: 99 * second, createdAt: created });
    await rig.registry.createSchedule(one, created + 99 * second);
    const ticker = new Ticker(rig.context());
    await ticker.start();
    await ticker.drain(5_000);
    expect(await idsOf(rig)).toEqual([tickId('one', created + 99 * second)]);
  });

  it('that were missed are made by the policy, and a rejected job is named', async () => {
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:9');
    const created = Date.now() - 1_000 * second;
    const old = { everyMs: 300 * second, createdAt: created };
    await rig.registry.createSchedule(record('skips', old), created + 300 * second);
    await rig.registry.createSchedule(record('lasts', { ...old, missed: 'last' }), created + 300 * second);
    await rig.registry.createSchedule(
      record('lost', { ...old, topic: 'gone', missed: 'last' }),
      created + 300 * second,
    );
    await rig.registry.createSchedule(record('paused', { ...old, isPaused: true }), null);
    await ticking(rig);
    await until('all are in the future', async () =>
      (await rig.registry.schedules('', 10)).every(
        ({ nextAt }) => nextAt === null || nextAt === created + 1_200 * second,
      ),
    );
    expect(await idsOf(rig)).toEqual([expect.stringMatching(/^schedule:lasts:/)]);
    const of = async (name: string) => rig.registry.schedule(name);
    expect(await of('lasts')).toMatchObject({ madeAt: created + 900 * second, problem: null });
    expect(await of('skips')).toMatchObject({ madeAt: null, problem: expect.stringMatching(/^missed: /) });
    expect(await of('lost')).toMatchObject({ madeAt: null, problem: 'topic gone is not registered' });
  });

  it('are made at their times after the clock was 26 hours ahead', async () => {
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:9');
    let ahead = 26 * 3_600 * second;
    const now = () => Date.now() + ahead;
    const clock = { now, read: async () => now(), known: async () => now() };
    const [created, hour] = [Date.now() - 100 * second, 3_600 * second];
    for (const [name, createdAt] of [
      ['old', created],
      ['new', now()],
    ] as const)
      await rig.registry.createSchedule(record(name, { createdAt }), createdAt + second);
    for (const name of ['claimed', 'hourly'])
      await rig.registry.createSchedule(record(name, { createdAt: created, everyMs: hour }), created + hour);
    const all = () => rig.registry.schedules('', 10);
    const ticker = new Ticker(rig.context({ clock }));
    await ticker.start();
    onTestFinished(() => ticker.drain(5_000));
    await until('all are moved', async () =>
      (await all()).every(({ nextAt }) => (nextAt ?? 0) > now() - 5 * second),
    );
    // By a process that dies.
    await rig.registry.updateSchedule(record('claimed', { revision: 2 }), Date.now(), now());
    await rig.registry.claimSchedules(now(), now() + upkeepLimits.tickClaimMs, 10);
    ahead = 0;
    const rightAt = Date.now();
    for (const name of ['old', 'new', 'claimed'])
      await until(`${name} has a job of the right time`, async () =>
        (await idsOf(rig)).some((id) => {
          const [, one, at = ''] = /^schedule:([^:]+):(.*)$/.exec(id) ?? [];
          return one === name && Math.abs(Date.parse(at) - rightAt) < 60 * second;
        }),
      );
    expect((await rig.registry.schedule('hourly'))?.nextAt).toBe(created + hour);
    expect((await rig.registry.schedule('hourly'))?.problem).toMatch(/^clock: /);
    expect(rig.lines).toContainEqual(
      expect.objectContaining({ kind: 'notice', message: expect.stringContaining('too far ahead') }),
    );
  });

  it('of one second fall no further behind than a turn, and one cause is logged once', async () => {
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:9');
    const created = Date.now() - 30 * second;
    await rig.registry.createSchedule(record('s', { createdAt: created }), created + 5 * second);
    const lost = record('lost', { createdAt: created, topic: 'gone' });
    await rig.registry.createSchedule(lost, created + 5 * second);
    await ticking(rig);
    await until('both have caught up', async () =>
      (await rig.registry.schedules('', 2)).every(({ nextAt }) => (nextAt ?? 0) > Date.now() - second),
    );
    expect(rig.lines.filter(({ kind }) => kind === 'error')).toEqual([
      expect.objectContaining({ schedule: 'lost', problem: 'topic gone is not registered' }),
    ]);
  });

  it('are not made again after a change that was computed before them', async () => {
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:9');
    const created = Date.now() - 101 * second;
    const first = record('s', { everyMs: 100 * second, createdAt: created });
    await rig.registry.createSchedule(first, created + 100 * second);
    await ticking(rig);
    const isMade = async () => ((await rig.registry.schedule('s'))?.nextAt ?? 0) > created + 100 * second;
    await until('the instant is made', isMade);
    await rig.store.jobs.cancel([{ topic: 't', id: (await idsOf(rig))[0] ?? '' }]);
    await rig.registry.updateSchedule(
      { ...first, everyMs: 50 * second, revision: 2 },
      created + 100 * second,
      created,
    );
    await until('the instant has ended again', isMade);
    expect(await idsOf(rig)).toEqual([]);
    await rig.registry.removeSchedule('s');
    await rig.registry.createSchedule(first, created + 100 * second);
    await until('the instant of a new schedule of this name has ended', isMade);
    expect(await idsOf(rig)).toEqual([]);
  });

  it('are held up by no schedule whose job cannot be looked for, or whose times cannot be computed', async () => {
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:9');
    const created = Date.now() - 101 * second;
    const slow = { everyMs: 100 * second, createdAt: created };
    const at = created + 100 * second;
    for (const name of ['asked', 'good']) await rig.registry.createSchedule(record(name, slow), at);
    const zone = { ...slow, everyMs: null, cron: '0 0 * * *', timezone: 'Nowhere/Land' };
    await rig.registry.createSchedule(record('zone', zone), at);
    const jobs = {
      ...rig.store.jobs,
      get: (key: JobKey) =>
        key.id.startsWith('schedule:asked:')
          ? Promise.reject(new StoreError({ kind: 'not_stored', code: 'timeout' }))
          : rig.store.jobs.get(key),
    };
    const ticker = new Ticker(rig.context({ store: { ...rig.store, jobs } }));
    await ticker.start();
    onTestFinished(() => ticker.drain(5_000));
    await until('the others are made', async () => (await idsOf(rig)).length === 1);
    expect(await idsOf(rig)).toEqual([expect.stringMatching(/^schedule:good:/)]);
    expect(await rig.registry.schedule('asked')).toMatchObject({ nextAt: at });
    expect(rig.lines).toContainEqual(expect.objectContaining({ kind: 'error', schedule: 'zone' }));
  });
});
