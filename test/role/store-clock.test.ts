// Tests clock jumps of the embedded store: nothing is removed during a hold, also after a restart. Notifier
// and intake work with a storage clock that differs from their own.
import { copyFileSync } from 'node:fs';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { pullOwner } from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { StoreClock } from '../../src/process/store-clock.ts';
import { storeLimits } from '../../src/store/limits.ts';
import { openEngine } from '../../src/store/sqlite/engine/engine.ts';
import { sqliteLimits } from '../../src/store/sqlite/limits.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { attemptOf, jobOf, request } from '../conformance/trial.ts';
import { startIntake } from '../support/intake.ts';
import { startSink } from '../support/sink.ts';
import { openSqliteStore, ownerPaths, temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';
import { startRig } from './rig.ts';

const dayMs = 86_400_000;
const retentionMs = 30 * dayMs;

/** A store in a temporary directory, with clocks that the test sets. */
function clocked() {
  const directory = temporaryDirectory();
  onTestFinished(() => directory.remove());
  let [wall, monotonic] = [1_900_000_000_000, 1_000];
  const options = {
    ...{ clock: () => wall, monotonic: () => monotonic, clockHoldMs: sqliteLimits.clockHoldMs },
    recoverHoldMs: storeLimits.recoverHoldMs,
  };
  return {
    options,
    directory: directory.path,
    opened: () => openSqliteStore(options, directory),
    pass(ms: number) {
      wall += ms;
      monotonic += ms;
    },
    jump(ms: number) {
      wall += ms;
    },
    /** Less than a ms passes: the wall clock does not show it. */
    passMicroseconds(us: number) {
      monotonic += us / 1_000;
    },
  };
}
type Opened = Awaited<ReturnType<typeof openSqliteStore>>;

/** One dead letter with a settled alert, and one ended job. */
async function fill({ client }: Opened): Promise<void> {
  const { jobs, alerts } = client.store;
  await jobs.push([jobOf('dead'), jobOf('ended')]);
  const [dead] = (await jobs.reserve(0, request(1))).jobs;
  if (dead === undefined) throw new Error('no job was reserved');
  await jobs.bury([{ ...dead, reason: 'gone', attempt: attemptOf(dead) }]);
  await alerts.settle([dead.version], 'sent');
  await jobs.cancel([{ topic: 't', id: 'ended' }]);
}

const removed = async ({ client }: Opened) => {
  const { expired } = await client.store.dead.expire(retentionMs, 10);
  const { forgotten } = await client.store.history.forget(retentionMs, 10);
  return expired + forgotten;
};
const warnings = async ({ client }: Opened) => (await client.store.admin.health()).warnings;

describe('embedded store after a clock jump', () => {
  it.each([400, -400])('of %i days: removes nothing during the hold', async (days) => {
    const clock = clocked();
    const store = await clock.opened();
    await fill(store);
    expect(await removed(store)).toBe(0);
    if (days < 0) clock.pass(retentionMs + 1);
    clock.jump(days * dayMs);
    expect(await removed(store)).toBe(0);
    expect(await warnings(store)).toEqual([
      expect.stringMatching(/jumped (ahead|back) by 400d; nothing expires/),
    ]);
    clock.pass(sqliteLimits.clockFarHoldMs - 1_000);
    expect(await removed(store)).toBe(0);
    clock.jump(-days * dayMs);
    expect(await removed(store)).toBe(0);
    clock.pass(sqliteLimits.clockFarHoldMs + 1);
    expect(await warnings(store)).toEqual([]);
    expect(await removed(store)).toBe(days < 0 ? 2 : 0);
    await store.close();
  });

  it('removes by the new time after the hold', async () => {
    const clock = clocked();
    const store = await clock.opened();
    await fill(store);
    clock.jump(400 * dayMs);
    expect(await removed(store)).toBe(0);
    clock.pass(sqliteLimits.clockFarHoldMs + 1);
    expect(await removed(store)).toBe(2);
    await store.close();
  });

  it('holds again after a restart, and after a jump while it was closed', async () => {
    const clock = clocked();
    let store = await clock.opened();
    await fill(store);
    expect(await removed(store)).toBe(0);
    clock.jump(400 * dayMs);
    expect(await removed(store)).toBe(0);
    // Pushes continue: their times do not confirm the clock.
    await store.client.store.jobs.push([jobOf('later')]);
    await store.close();
    store = await clock.opened();
    expect(await removed(store)).toBe(0);
    clock.pass(sqliteLimits.clockFarHoldMs + 1);
    expect(await removed(store)).toBe(2);
    await store.close();
  });

  it('holds after a jump back and ahead again, between which only a job died', async () => {
    const clock = clocked();
    const store = await clock.opened();
    expect(await removed(store)).toBe(0);
    clock.jump(-retentionMs);
    await fill(store);
    clock.jump(retentionMs);
    clock.pass(1_000);
    expect(await removed(store)).toBe(0);
    await store.close();
  });

  it.each([false, true])(
    'holds after a start with the right time, if it was behind before; also at the start: %s',
    async (isAtStart) => {
      const clock = clocked();
      let store = await clock.opened();
      await store.client.store.jobs.push([jobOf('earlier')]);
      if (isAtStart) {
        await store.close();
        clock.jump(-retentionMs);
        store = await clock.opened();
      } else clock.jump(-retentionMs);
      await fill(store);
      await store.close();
      clock.jump(retentionMs);
      clock.pass(1_000);
      store = await clock.opened();
      expect(await removed(store)).toBe(0);
      clock.pass(sqliteLimits.clockFarHoldMs + 1);
      expect(await removed(store)).toBe(2);
      await store.close();
    },
  );

  it('holds after a start with the right time, if the clock was behind while the disk was full', async () => {
    const clock = clocked();
    let store = await clock.opened();
    await store.client.store.jobs.push([jobOf('earlier')]);
    expect(await removed(store)).toBe(0);
    await store.close();
    clock.jump(-retentionMs);
    const engine = openEngine(ownerPaths(clock.directory).path, clock.options);
    // Its transaction is one of a full disk.
    engine.freeDiskReserve();
    engine.close();
    clock.jump(retentionMs);
    clock.pass(1_000);
    store = await clock.opened();
    expect(await warnings(store)).toEqual([expect.stringMatching(/after the last time in jobs.db/)]);
    await store.close();
  });

  it('does not hold after a short downtime, an NTP step or a slewed clock', async () => {
    const clock = clocked();
    let store = await clock.opened();
    await fill(store);
    expect(await removed(store)).toBe(0);
    for (let n = 0; n < 100; n += 1) {
      clock.pass(sqliteLimits.clockNoteMs);
      clock.jump(-5_000);
      expect(await removed(store)).toBe(0);
    }
    expect(await warnings(store)).toEqual([]);
    // 100 times 55 s have passed; both entries are old enough 1 s after the next start.
    clock.pass(retentionMs - 100 * 55_000 - sqliteLimits.clockJumpMs - 1_000);
    expect(await removed(store)).toBe(0);
    await store.close();
    clock.pass(sqliteLimits.clockJumpMs - 1);
    store = await clock.opened();
    clock.pass(1_002);
    expect(await removed(store)).toBe(2);
    await store.close();
  });

  it('holds again after a restart, if the clock went only a part of its jump back', async () => {
    const clock = clocked();
    let store = await clock.opened();
    await fill(store);
    clock.jump(3 * retentionMs);
    expect(await removed(store)).toBe(0);
    clock.jump(-retentionMs);
    await store.client.store.jobs.push([jobOf('later')]);
    await store.close();
    store = await clock.opened();
    expect(await removed(store)).toBe(0);
    clock.pass(sqliteLimits.clockFarHoldMs + 1);
    expect(await removed(store)).toBe(2);
    await store.close();
  });

  it('removes although the machine often pauses for up to 30 minutes', async () => {
    const clock = clocked();
    const store = await clock.opened();
    await fill(store);
    clock.pass(retentionMs - 3_600_000);
    let count = 0;
    for (let n = 0; n < 20; n += 1) {
      clock.jump(25 * 60_000);
      count += await removed(store);
      clock.pass(9 * 60_000);
    }
    expect(await warnings(store)).toEqual([]);
    expect(count).toBe(2);
    await store.close();
  });

  it('warns after a start with a clock one retention ahead, and holds longer', async () => {
    const clock = clocked();
    let store = await clock.opened();
    await fill(store);
    expect(await removed(store)).toBe(0);
    await store.close();
    clock.jump(45 * 60_000);
    store = await clock.opened();
    expect(await warnings(store)).toEqual([]);
    clock.pass(sqliteLimits.clockHoldMs + 1);
    expect(await removed(store)).toBe(0);
    await store.close();
    clock.jump(400 * dayMs);
    clock.pass(12_345);
    store = await clock.opened();
    expect(await warnings(store)).toEqual([
      'the clock of this machine is 400d after the last time in jobs.db; nothing expires until it has stood for 1h',
    ]);
    clock.pass(sqliteLimits.clockFarHoldMs - 1);
    expect(await removed(store)).toBe(0);
    expect(await warnings(store)).toHaveLength(1);
    clock.pass(1);
    expect(await removed(store)).toBe(2);
    expect(await warnings(store)).toEqual([]);
    await store.close();
  });

  it('a day-long lease of a pulled job delays the expiry of no other one', async () => {
    const clock = clocked();
    const store = await clock.opened();
    const { jobs } = store.client.store;
    await jobs.push(['day', 'before', 'after'].map((id) => jobOf(id)));
    const pull = (leaseMs: number) => jobs.reserve(0, request(1, null, pullOwner, leaseMs));
    const seconds = new Map<string, number>();
    const recover = async (times: number) => {
      for (let n = 0; n < times; n += 1) {
        for (const { lease } of (await jobs.recover(0, 10)).pulled ?? [])
          if (!seconds.has(lease.id)) seconds.set(lease.id, n);
        clock.pass(upkeepLimits.recoverEveryMs);
      }
    };
    await pull(dayMs);
    await pull(60_000);
    await recover(10);
    clock.jump(2 * 3_600_000);
    await pull(20_000);
    await recover(60);
    // 50 s of `before` were left. Both leases expire at their own time.
    expect(Object.fromEntries(seconds)).toEqual({ before: 50, after: 20 });
    await store.close();
  });

  /** After how many seconds recover finds the expired lease; the jobs of processes count as returned. */
  async function secondsUntilExpiry(
    clock: ReturnType<typeof clocked>,
    { jobs }: Opened['client']['store'],
    most: number,
  ): Promise<number | null> {
    for (let second = 0; second <= most; second += 1, clock.pass(1_000)) {
      const { returned, pulled = [] } = await jobs.recover(0, 10);
      if (returned + pulled.length > 0) return second;
    }
    return null;
  }

  it.each([
    ['of a process', undefined],
    ['of a pulled job', pullOwner],
  ])('a lease %s ends at its own time after the clock was set right', async (_, holder) => {
    const clock = clocked();
    const store = await clock.opened();
    const { jobs } = store.client.store;
    await secondsUntilExpiry(clock, store.client.store, 10);
    clock.jump(26 * 3_600_000);
    await jobs.push([jobOf('a')]);
    await jobs.reserve(0, request(1, null, holder, 20_000));
    clock.jump(-26 * 3_600_000);
    expect(await secondsUntilExpiry(clock, store.client.store, 60)).toBe(20);
    await store.close();
  });

  it('a jump whose transaction is rolled back is found by the next one', async () => {
    const clock = clocked();
    const store = await clock.opened();
    const { jobs } = store.client.store;
    await secondsUntilExpiry(clock, store.client.store, 10);
    await jobs.push([jobOf('a')]);
    await jobs.reserve(0, request(1, null, undefined, 20_000));
    clock.jump(3_600_000);
    store.owner.inspect((db) =>
      db.exec("CREATE TEMP TRIGGER broken BEFORE INSERT ON job BEGIN SELECT RAISE(ROLLBACK, 'broken'); END"),
    );
    await jobs.push([jobOf('b')]);
    store.owner.inspect((db) => db.exec('DROP TRIGGER broken'));
    expect(await secondsUntilExpiry(clock, store.client.store, 60)).toBe(20);
    await store.close();
  });

  it('steps of the clock that are each too short for a jump add up to one', async () => {
    const clock = clocked();
    const store = await clock.opened();
    const { jobs } = store.client.store;
    await secondsUntilExpiry(clock, store.client.store, 10);
    await jobs.push([jobOf('a')]);
    await jobs.reserve(0, request(1, null, undefined, 20_000));
    for (const id of ['b', 'c', 'd', 'e']) {
      clock.jump(2_900);
      await jobs.push([jobOf(id)]);
    }
    expect(await secondsUntilExpiry(clock, store.client.store, 60)).toBe(20);
    await store.close();
  });

  it('a jump right after the start, before the first transaction, shortens no lease', async () => {
    const clock = clocked();
    const first = await clock.opened();
    await first.client.store.jobs.push([jobOf('a')]);
    await first.client.store.jobs.reserve(0, request(1, null, undefined, 20_000));
    await first.close();
    const second = await clock.opened();
    clock.jump(60_000);
    expect(await secondsUntilExpiry(clock, second.client.store, 60)).toBe(20);
    await second.close();
  });

  it('the lease of a lost number ends no job of a restored backup that is leased in the same ms', async () => {
    const clock = clocked();
    const file = ownerPaths(clock.directory).path;
    const first = await clock.opened();
    await first.client.store.jobs.push([jobOf('a')]);
    await first.close();
    copyFileSync(file, `${file}.backup`);
    const lease = async ({ client }: Opened) =>
      (await client.store.jobs.reserve(0, request(1, null, undefined, 20_000))).jobs;
    const second = await clock.opened();
    clock.pass(60_000);
    const lost = await lease(second);
    await second.close();
    copyFileSync(`${file}.backup`, file);
    clock.jump(-30_000);
    const third = await clock.opened();
    clock.jump(30_000);
    clock.passMicroseconds(300);
    expect(await lease(third)).toMatchObject([{ id: 'a', version: lost[0]?.version }]);
    const acks = lost.map((job) => ({ ...job, attempt: attemptOf(job) }));
    expect(await third.client.store.jobs.ack(acks)).toEqual([{ kind: 'lease_lost' }]);
    await third.close();
  });

  it('a restart with the right clock ends a lease further ahead than any may be', async () => {
    const clock = clocked();
    const first = await clock.opened();
    clock.jump(26 * 3_600_000);
    await first.client.store.jobs.push([jobOf('a')]);
    await first.client.store.jobs.reserve(0, request(1, null, pullOwner, 20_000));
    await first.close();
    clock.jump(-26 * 3_600_000);
    const second = await clock.opened();
    // From the first recover.
    expect(await secondsUntilExpiry(clock, second.client.store, 60)).toBe(20);
    await second.close();
  });

  it('a lease whose token hides its length is not cut by a restart after a second step back', async () => {
    const clock = clocked();
    const first = await clock.opened();
    await first.client.store.jobs.push([jobOf('a')]);
    clock.jump(-3_600_000);
    await first.client.store.jobs.reserve(0, request(1, null, pullOwner, 20_000));
    await first.close();
    clock.jump(-limits.pullLeaseMsMax);
    const second = await clock.opened();
    expect(await secondsUntilExpiry(clock, second.client.store, 60)).toBeNull();
    await second.close();
  });
});

describe('a process whose clock differs from the storage clock', () => {
  it('notifier: sends, stores and computes with the storage clock', async () => {
    const storeTime = () => Date.now() - 400 * dayMs;
    const rig = await startRig({ clock: storeTime });
    const sink = await startSink((_, response) => {
      response.sendDate = false;
      const inTenMinutes = new Date(storeTime() + 600_000).toUTCString();
      response.writeHead(503, { 'retry-after': inTenMinutes }).end('busy');
    });
    await rig.topic('t', sink.url, { timeoutMs: 60_000 });
    await rig.run(createNotifier(rig.context()));
    await rig.push('t', 'a');
    const arrival = await until('the callback', () => sink.arrivals[0]);
    expect(Math.abs(Number(arrival.headers['webhook-timestamp']) - storeTime() / 1_000)).toBeLessThan(60);
    const job = await until('the retry', async () => {
      const known = await rig.store.jobs.get({ topic: 't', id: 'a' });
      return known?.state === 'delayed' ? known : null;
    });
    expect(Math.abs((job.attempts[0]?.startedAt ?? 0) - storeTime())).toBeLessThan(60_000);
    expect(Math.abs(job.dueAt - storeTime() - 600_000)).toBeLessThan(60_000);
    expect(rig.notified()[0]?.['lateMs']).toBeGreaterThanOrEqual(0);
    expect(rig.notified()[0]?.['lateMs']).toBeLessThan(60_000);
  });

  it('reads the storage clock again after a step of its own', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + dayMs });
    onTestFinished(() => void vi.useRealTimers());
    const clock = new StoreClock(async () => Date.now());
    await clock.known();
    vi.setSystemTime(Date.now() - dayMs);
    expect(Math.abs((await clock.known()) - Date.now())).toBeLessThan(60_000);
  });

  it('intake: accepts instants and rotates secrets by the storage clock', async () => {
    const storeTime = () => Date.now() + 400 * dayMs;
    const intake = await startIntake({ clock: storeTime });
    await intake.api('PUT', '/v1/topics/t', { callbackUrl: 'http://127.0.0.1:9/' });
    const at = storeTime() + limits.delayMsMax - dayMs;
    await until('the clock of the store to be known', async () => {
      const reply = await intake.push('t', '{}', `?id=1&at=${at}`);
      return reply.status === 201;
    });
    const { body } = await intake.api('POST', '/v1/topics/t/secret');
    expect(Math.abs(Date.parse(body.oldSignsUntil) - storeTime() - limits.secretOverlapMs)).toBeLessThan(
      60_000,
    );
  });
});
