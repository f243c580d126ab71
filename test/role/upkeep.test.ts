// Upkeep on the embedded store: lost leases, retention, counters of other processes.
import { readdirSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { pullOwner, type ReservedJob } from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { sqliteLimits } from '../../src/store/sqlite/limits.ts';
import { telemetryLimits } from '../../src/telemetry/limits.ts';
import { outputName } from '../../src/telemetry/log-file.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { createUpkeep } from '../../src/upkeep/upkeep.ts';
import { attemptOf } from '../conformance/trial.ts';
import { testDirectory } from '../support/directory.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { until } from '../support/until.ts';
import { between, owner, type Rig, startRig } from './rig.ts';

async function startUpkeep(rig: Rig, store = rig.store, logDir = testDirectory()) {
  return rig.run(createUpkeep(rig.context({ store, config: { logDir } })));
}

/** A store whose clock jumps with the time of this process. */
async function jumping() {
  const time = useJumpingTime();
  return { time, rig: await startRig({ clock: time.wall }) };
}

/** Reserves every ready job, as the notifier of that incarnation. */
const reserve = (rig: Rig, incarnation: number, leaseMs?: number) =>
  rig.reserve(limits.reserveMax, owner(incarnation), leaseMs);

/** How often upkeep has asked who lives. */
const questions = (rig: Rig) => rig.sent.filter(({ kind }) => kind === 'who_lives').length;

const stateOf = async (rig: Rig, id: string) => (await rig.store.jobs.get({ topic: 't', id }))?.state;

describe('recoverer: leases', () => {
  it('of pulled jobs that expired are failed attempts, without a strike', async () => {
    const { time, rig } = await jumping();
    await rig.topic('t', 'http://127.0.0.1:1/', {
      maxAttempts: 2,
      backoff: { type: 'ladder', stepsMs: [0] },
    });
    await rig.push('t', 'a');
    const [first] = await rig.reserve(1, pullOwner, 300);
    await startUpkeep(rig);
    await time.passUntil('it is ready', async () => (await stateOf(rig, 'a')) === 'ready');
    expect(await rig.store.jobs.get({ topic: 't', id: 'a' })).toMatchObject({
      ...{ strikes: 0, failures: 1 },
      attempts: [{ attempt: 1, outcome: 'failed', reason: 'lease_expired', status: null, nextBy: 'backoff' }],
    });
    expect(await rig.store.jobs.ack([{ ...(first as ReservedJob), attempt: null }])).toEqual([
      { kind: 'lease_lost' },
    ]);
    await rig.reserve(1, pullOwner, 300);
    await time.passUntil('it is dead', async () => (await stateOf(rig, 'a')) === 'dead');
    expect(await rig.store.jobs.get({ topic: 't', id: 'a' })).toMatchObject({
      ...{ strikes: 0, failures: 2, deadReason: 'attempts_exhausted' },
    });
    expect([rig.counted('t', 'retried'), rig.counted('t', 'dead')]).toEqual([1, 1]);
  });

  it('of pulled jobs that expired are released when their topic is unknown', async () => {
    const { time, rig } = await jumping();
    await rig.push('unknown', 'a');
    await rig.reserve(1, pullOwner, 100);
    await startUpkeep(rig);
    const key = { topic: 'unknown', id: 'a' };
    await time.passUntil('it is ready', async () => (await rig.store.jobs.get(key))?.state === 'ready');
    expect(await rig.store.jobs.get(key)).toMatchObject({ strikes: 0, failures: 0, attempts: [] });
  });

  it('are not recovered by an old list; a new one is requested', async () => {
    const { time, rig } = await jumping();
    await rig.push('t', 'a');
    await reserve(rig, 31);
    await startUpkeep(rig);
    let [asked, seenAt] = [0, 0];
    await time.passUntil('the answer to the last question is late', () => {
      if (questions(rig) > asked) [asked, seenAt] = [questions(rig), time.wall()];
      return asked > 0 && time.wall() > seenAt + upkeepLimits.livingFreshMs;
    });
    rig.tell({ kind: 'living', incarnations: [30, 32], processes: [] });
    await time.passUntil('it asks again', () => questions(rig) > asked);
    asked = questions(rig);
    rig.tell({ kind: 'living', incarnations: [31], processes: [] });
    await time.passUntil('it asks once more', () => questions(rig) > asked);
    expect(await stateOf(rig, 'a')).toBe('reserved');
  });

  it('of a dead process are recovered when the store answers again', async () => {
    const { time, rig } = await jumping();
    await rig.push('t', 'a');
    await reserve(rig, 11);
    let down = true;
    let [recovered, rounds] = [0, 0];
    const store = between(rig, {
      recoverOwners(...asked) {
        if (down) return Promise.reject(new StoreError({ kind: 'unknown', code: 'no_answer' }));
        recovered += 1;
        return rig.store.jobs.recoverOwners(...asked);
      },
      recover(...asked) {
        rounds += 1;
        return rig.store.jobs.recover(...asked);
      },
    });
    await startUpkeep(rig, store);
    rig.tell({ kind: 'owner_dead', incarnation: 11 });
    await time.passUntil('it is reported', () =>
      rig.lines.some(({ message }) => message === 'recoverer: cannot recover leases'),
    );
    down = false;
    await time.passUntil('it is ready', async () => (await stateOf(rig, 'a')) === 'ready');
    // Once more after a round, for a reserve that was on its way at the death, and not for ever.
    const twoRounds = (before: number) =>
      time.passUntil('two more rounds have passed', () => rounds >= before + 2);
    await twoRounds(rounds);
    const enough = recovered;
    await twoRounds(rounds);
    expect(recovered).toBe(enough);
  });
});

describe('upkeep: other agents', () => {
  it('janitor removes log files older than log.days and no other', async () => {
    const rig = await startRig();
    const directory = testDirectory();
    const today = new Date().toISOString().slice(0, 10).replaceAll('-', '');
    for (const name of [
      'notify-notifier-0-20200101.log',
      `notify-notifier-0-${today}.log`,
      'other-20200101.txt',
    ])
      writeFileSync(join(directory, name), 'x');
    await startUpkeep(rig, rig.store, directory);
    await until('the old one is gone', () => readdirSync(directory).length === 2);
    expect(readdirSync(directory).sort()).toEqual([`notify-notifier-0-${today}.log`, 'other-20200101.txt']);
  });

  it('janitor keeps log files during a clock hold and trims the output by size', async () => {
    let now = Date.now();
    const rig = await startRig({ clock: () => now, clockHoldMs: sqliteLimits.clockHoldMs });
    const directory = testDirectory();
    const name = `error-notifier-0-${new Date().toISOString().slice(0, 10).replaceAll('-', '')}.log`;
    writeFileSync(join(directory, name), 'x');
    writeFileSync(join(directory, outputName), '');
    truncateSync(join(directory, outputName), telemetryLimits.outputBytesMax + 1);
    now += 400 * 86_400_000;
    await startUpkeep(rig, rig.store, directory);
    await until('the output is trimmed', () => statSync(join(directory, outputName)).size === 0);
    expect(readdirSync(directory).sort()).toEqual([outputName, `${outputName}.1`, name]);
  });

  it('janitor removes old history entries, and dead letters whose alert is settled', async () => {
    let now = Date.now() - 40 * 86_400_000;
    const rig = await startRig({ clock: () => now });
    for (const id of ['old', 'mailed', 'owed']) await rig.push('t', id);
    const [, mailed, owed] = await reserve(rig, 1);
    if (mailed === undefined || owed === undefined) throw new Error('three were pushed');
    const attempt = attemptOf(mailed);
    await rig.store.jobs.bury([mailed, owed].map((job) => ({ ...job, reason: 'gone', attempt })));
    await rig.store.alerts.settle([mailed.version], 'sent');
    await rig.store.jobs.cancel([{ topic: 't', id: 'old' }]);
    now = Date.now();
    await rig.push('t', 'new');
    await rig.store.jobs.cancel([{ topic: 't', id: 'new' }]);
    now += 60_000;
    // It may be of a schedule, and is kept for limits.tickHistoryMs.
    const config = { logDir: testDirectory(), 'history.retention': 0 };
    await rig.run(createUpkeep(rig.context({ config })));
    const ended = async (id: string) => (await rig.store.history.get({ topic: 't', id }))?.state;
    await until('the old one is forgotten', async () => (await ended('old')) === undefined);
    await until('the dead letter has expired', async () => (await ended('mailed')) === 'expired');
    expect(await ended('new')).toBe('cancelled');
    expect(await stateOf(rig, 'owed')).toBe('dead');
    expect(rig.lines.filter(({ expired }) => expired === 1)).toHaveLength(1);
  });

  it('a drain records the counters of other processes at once', async () => {
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:9/');
    const upkeep = await startUpkeep(rig);
    rig.tell({ kind: 'counters', deltas: [{ topic: 't', day: 20300101, name: 'delivered', n: 7 }] });
    await upkeep.drain(60_000);
    const stats = await rig.registry.stats('t', 20300101);
    expect(stats?.total.delivered).toBe(7);
  });

  it('janitor continues if the log directory cannot be read', async () => {
    const { time, rig } = await jumping();
    await startUpkeep(rig, rig.store, join(testDirectory(), 'absent'));
    await time.passUntil('it is reported', () =>
      rig.lines.some(({ message }) => message === 'janitor: cannot remove log files'),
    );
    await rig.push('t', 'a');
    await reserve(rig, 1, 100);
    await time.passUntil('leases are recovered', async () => (await stateOf(rig, 'a')) === 'ready');
  });
});
