// The Redis store and its server: calls without effect leave every key unchanged. A full, foreign, emptied,
// frozen or unavailable server gives the right failures, and the store recovers.

import type { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import type { JobKey, ReservedJob } from '../../src/core/job.ts';
import { tickId } from '../../src/core/job-id.ts';
import { limits } from '../../src/core/limits.ts';
import type { Partition } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { deadCalls } from '../../src/store/redis/calls/dead.ts';
import { createClient } from '../../src/store/redis/client/connection.ts';
import { redisLimits } from '../../src/store/redis/limits.ts';
import { bucketOf, keysOf } from '../../src/store/redis/scripts/keys.ts';
import { composeScripts, type ScriptName, scriptNames } from '../../src/store/redis/scripts/scripts.ts';
import type { Arg, Shards } from '../../src/store/redis/shard/shards.ts';
import { type Log, silentLog } from '../../src/telemetry/log.ts';
import {
  attemptOf,
  editOf,
  examined,
  farOffMs,
  jobOf,
  owner,
  request,
  type Trial,
  within,
} from '../conformance/trial.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import {
  allKeys,
  type OneShardOptions,
  oneShard,
  openedEmpty,
  openedOn,
  openOn,
  snapshot,
} from '../support/redis-store.ts';
import { lacks, owned } from '../support/services.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { until } from '../support/until.ts';

const attempt = attemptOf({ failures: 0 });

async function opened(more: OneShardOptions = {}, config: readonly string[] = []) {
  const server = await owned('test', startRedis({ config }));
  return { server, ...(await openedEmpty(server, more)) };
}

const tick = (n: number) => tickId('s', Date.UTC(2030, 0, 1) + n * 1_000);

/** Resolves when the store knows that its server is nearly full. */
const makeNearlyFull = (
  time: ReturnType<typeof useJumpingTime>,
  { server, under }: Pick<Awaited<ReturnType<typeof opened>>, 'server' | 'under'>,
) =>
  // Redis frees the memory of script loading some seconds later.
  time.passUntil('the store to notice', async () => {
    const used = Number(/used_memory:(\d+)/.exec(await server.ask('INFO', 'memory'))?.[1]);
    await server.ask('CONFIG', 'SET', 'maxmemory', String(Math.ceil(used * 1.05)));
    return under.shard.isNearlyFull;
  });

/** Jobs in every state, alerts in every state, and history entries. */
async function filled(trial: Trial): Promise<void> {
  await trial.bystanders();
  await trial.push('large', { topic: 'by.ready', body: Buffer.alloc(5_000, 7) });
  await trial.buried('sent', { topic: 'sent' });
  await trial.alerts.settle([(await trial.known('sent', 'sent')).version], 'sent');
  await trial.buried('claimed', { topic: 'claimed' });
  await trial.alerts.claim('claimed', 60_000, 1);
  await trial.ack(await trial.reserved('done', { topic: 'done' }));
}

async function keepsKeys<T>(raw: Redis, call: () => Promise<T>): Promise<T> {
  const before = await allKeys(raw);
  const answer = await call();
  expect(await allKeys(raw)).toEqual(before);
  return answer;
}

function hearing(): { readonly log: Log; readonly errors: string[] } {
  const errors: string[] = [];
  return { log: { ...silentLog, error: (message) => void errors.push(message) }, errors };
}

describe.skipIf(await lacks('redis'))('Redis store', () => {
  it('calls without effect: leave every key unchanged', async () => {
    const { under, trial } = await opened();
    await filled(trial);
    // Topics with only history are put at rest.
    await trial.history.forget(farOffMs, 100);
    const job = await trial.reserved('1');
    const { token } = job;
    const wrong = { topic: 't', id: '1', version: job.version + 1, token, attempt, delayMs: 0 } as const;
    const gone = { ...wrong, id: 'absent' };
    const far = { when: { delayMs: 0 } } as const;
    const { jobs, dead, alerts, history, admin } = under.store;
    const calls: Readonly<Record<string, () => Promise<unknown>>> = {
      keep: () => jobs.push([jobOf('1', { mode: 'keep' })]),
      reject: () => jobs.push([jobOf('1', { mode: 'reject' })]),
      get: () => jobs.get(job),
      cancel: () => jobs.cancel([gone, { topic: 'none', id: '1' }]),
      run: () => jobs.run([job, gone]),
      reschedule: () =>
        jobs.reschedule([
          { ...wrong, ...far },
          { ...gone, ...far },
        ]),
      requeue: () => jobs.requeue([job, gone]),
      promote: () => jobs.promote(0, 500),
      reserve: () =>
        jobs.reserve(0, { owner, max: 5, others: { room: 0, leaseMs: 1_000 }, topics: new Map() }),
      ack: () => jobs.ack([wrong, gone]),
      retry: () => jobs.retry([wrong, gone]),
      bury: () => jobs.bury([wrong, gone].map((one) => ({ ...one, reason: 'gone' }))),
      release: () => jobs.release([wrong, gone]),
      recoverOwners: () => jobs.recoverOwners(0, 1, { living: [] }, 500),
      releaseUnheld: () => jobs.releaseUnheld(0, { instance: 1, incarnation: 1 }, [], 0),
      search: () => jobs.search({}, 100, null),
      searchEnded: () => jobs.search({ state: 'done' }, 100, null),
      searchId: () => jobs.search({ id: '1' }, 100, null),
      list: () => dead.list({}, 100, null),
      requeueDead: () => dead.requeue({ topic: 'none' }, 100),
      purge: () => dead.purge({ until: 1 }, 100),
      expire: () => dead.expire(farOffMs, 100),
      history: () => history.get({ topic: 'done', id: 'done' }),
      forget: () => history.forget(farOffMs, 100),
      due: () => alerts.due(0),
      claim: () => alerts.claim('claimed', 60_000, 5),
      settle: () => alerts.settle([1, 2], 'sent'),
      alerts: () => alerts.list(100, null),
      counts: () => admin.counts(),
      purgeTopic: () => admin.purgeTopic('none', 100),
      health: () => admin.health(),
    };
    // All except recover, which stores the time of each call.
    for (const [name, call] of Object.entries(calls))
      await keepsKeys(under.raw, call).catch((error: unknown) => {
        throw new Error(`${name} changed something`, { cause: error });
      });
  });

  it('scripts: reject a bucket without marker or with a foreign one', async () => {
    const { server, under, trial } = await opened();
    await filled(trial);
    const scripts = composeScripts();
    const client = createClient(
      server.url,
      'raw',
      { onReady() {}, onLost() {}, onError() {}, onEnd() {} },
      { scripts },
    );
    await client.connect();
    const run = (name: string, marker: string) =>
      (client as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>)[name]?.(
        ...keysOf('{dq:0}'),
        marker,
        0,
        '',
      );
    for (const name of scriptNames.filter((each) => each !== 'mark'))
      await keepsKeys(under.raw, async () =>
        expect(run(name, 'dq 1 shard x registry y buckets 1'), name).rejects.toThrow(/^DQFOREIGN/),
      );
    await under.raw.hdel('{dq:0}:n', 'marker');
    for (const name of scriptNames.filter((each) => each !== 'mark'))
      await keepsKeys(under.raw, async () => expect(run(name, 'x'), name).rejects.toThrow(/^DQNOMARKER/));
    client.disconnect();
  });

  it('push: rejected when placed by an older shard list; ack still works', async () => {
    const { under, trial } = await opened();
    await trial.push('1');
    await under.raw.hset('{dq:0}:n', 'list', 2);
    const outcome = await keepsKeys(under.raw, () => trial.tryPush('2'));
    expect(outcome).toEqual({ kind: 'not_stored', code: 'stale_list' });
    expect(await trial.ack(await trial.lease())).toEqual({ kind: 'acked' });
  });

  it('full server: rejects pushes, requeues and edits; other calls continue', async () => {
    const { server, under, trial } = await opened();
    for (const id of ['ack', 'retry', 'bury', 'cancel', 'release', 'lost']) await trial.push(id);
    await trial.push('later', { when: { delayMs: 20 } });
    await trial.buried('dead', { topic: 'dead' });
    await server.ask('CONFIG', 'SET', 'maxmemory', '1mb');
    const full = { kind: 'not_stored', code: 'redis_full' };
    expect(await keepsKeys(under.raw, () => trial.tryPush('new'))).toEqual(full);
    expect(await keepsKeys(under.raw, () => trial.jobs.requeue([{ topic: 'dead', id: 'dead' }]))).toEqual([
      full,
    ]);
    await expect(trial.dead.requeue({}, 10)).rejects.toThrow('redis_full');
    for (const job of [await trial.known('later'), await trial.known('dead', 'dead')]) {
      const edit = editOf(job, { requeue: job.state === 'dead' });
      expect(await keepsKeys(under.raw, () => trial.jobs.edit([edit]))).toEqual([full]);
    }
    const leases = Object.fromEntries((await trial.reserve(request(6))).map((job) => [job.id, job]));
    const lease = (id: string) => leases[id] ?? expect.fail(id);
    expect(await trial.ack(lease('ack'))).toEqual({ kind: 'acked' });
    expect(await trial.retry(lease('retry'), 0)).toEqual({ kind: 'retried' });
    expect(await trial.bury(lease('bury'))).toEqual({ kind: 'buried' });
    expect(await trial.release(lease('release'))).toEqual({ kind: 'released' });
    expect(await trial.cancel(lease('cancel'))).toEqual({ kind: 'cancelled', inFlight: true });
    await until('the delayed job to be due', async () => (await trial.promote()).moved === 1);
    expect((await trial.alerts.claim('t', 1_000, 5)).length).toBe(1);
    expect(await trial.dead.purge({}, 10)).toEqual({ purged: 2, more: false });
    await server.ask('CONFIG', 'SET', 'maxmemory', '0');
    expect(await trial.push('new')).toMatchObject({ kind: 'stored' });
  });

  // The suite replaces this clock.
  it('clock: pushes, leases and the clock call read the time of the server', async () => {
    const { server, under, trial } = await opened();
    const time = async () => {
      const [seconds, micros] = (await server.ask('TIME')).split('\n').map(Number) as [number, number];
      return seconds * 1_000 + micros / 1_000;
    };
    const from = await time();
    const wrong = vi.spyOn(Date, 'now').mockReturnValue(from - 400 * 86_400_000);
    onTestFinished(() => wrong.mockRestore());
    const { dueAt } = await trial.push('1');
    const { now } = await trial.jobs.reserve(0, request(1));
    const clock = await trial.admin.clock();
    const exact = await under.shard.now();
    wrong.mockRestore();
    const to = await time();
    for (const moment of [dueAt, now, clock, exact]) expect(moment).toEqual(within(Math.floor(from), to));
    expect([dueAt, now, clock].every(Number.isInteger)).toBe(true);
  });

  it('history-forget: with max 0 returns whether more entries are older', async () => {
    const { under, trial } = await opened({ clock: new SteppedClock() });
    await trial.ack(await trial.reserved('1'));
    await trial.tick();
    // As a call does in partitions after reaching its max.
    expect(await under.shard.run('historyForget', 0, [0, 0])).toEqual([0, 1]);
  });

  it('nearly full server: keeps no new history and forgets the old, except ends of schedules', async () => {
    const time = useJumpingTime();
    const { server, under, trial } = await opened();
    const ids = ['before', tick(0), 'after', tick(1)];
    const end = async (id: string) => trial.ack(await trial.reserved(id));
    for (const id of ids.slice(0, 2)) await end(id);
    await makeNearlyFull(time, { server, under });
    for (const id of ids.slice(2)) await end(id);
    expect((await trial.dump()).ended.map(({ id }) => id).sort()).toEqual(['before', tick(0), tick(1)]);
    expect(await trial.history.forget(farOffMs, 10)).toEqual({ forgotten: 1, more: false });
    expect((await trial.dump()).ended.map(({ id }) => id).sort()).toEqual([tick(0), tick(1)]);
  });

  it('nearly full server: forgets ends of schedules after 10 minutes, and what follows young ones', async () => {
    const time = useJumpingTime();
    const clock = new SteppedClock();
    const { server, under, trial } = await opened({ clock });
    const end = async (id: string) => {
      await trial.ack(await trial.reserved(id));
      await trial.tick();
    };
    await end(tick(0));
    await clock.skip(limits.tickHistoryMs);
    for (const id of [tick(1), tick(2), tick(3), 'last']) await end(id);
    await makeNearlyFull(time, { server, under });
    const forget = () => trial.history.forget(farOffMs, 2);
    expect([await forget(), await forget(), await forget()]).toEqual([
      { forgotten: 1, more: true },
      { forgotten: 0, more: true },
      { forgotten: 1, more: false },
    ]);
    expect((await trial.dump()).ended.map(({ id }) => id).sort()).toEqual([tick(1), tick(2), tick(3)]);
  });

  it('keepHistory false: ended jobs leave no record and no attempts', async () => {
    const { under, trial } = await opened({ keepHistory: false });
    await trial.push('1', { body: Buffer.alloc(redisLimits.inlineBodyBytesMax + 1) });
    await trial.retry(await trial.lease(), 0);
    await trial.ack(await trial.lease());
    await trial.ack((await trial.requeued('2')).again);
    await trial.alerts.settle([(await trial.dump()).alerts[0]?.version ?? 0], 'sent');
    const left = await under.raw.exists(
      ...['j', 'm', 'b', 'p', 'h', 'e', 'l'].map((name) => `{dq:0}:${name}`),
    );
    expect(left).toBe(0);
  });

  it('keepHistory false: the end of a job of a schedule leaves its record, among others', async () => {
    const { under, trial } = await opened({ keepHistory: false });
    const ids = ['1', 'schedule:s:2030-01-01T00:00:00Z', '2'];
    const leases: ReservedJob[] = [];
    for (const id of ids) leases.push(await trial.reserved(id));
    await trial.jobs.ack(leases.map((job) => ({ ...job, attempt: attemptOf(job) })));
    expect((await trial.dump()).ended.map(({ id }) => id)).toEqual([ids[1]]);
    expect(await under.raw.hlen('{dq:0}:j')).toBe(0);
  });

  it('cancel: the next of two jobs with one due time becomes the head', async () => {
    const { under, trial } = await opened();
    const when = { at: Date.now() + 3_600_000 };
    await trial.jobs.push(['1', '2', '3'].map((id) => jobOf(id, { when })));
    const problems = async () => (await examined(trial)).problems;
    expect(await problems()).toEqual([]);
    await trial.cancel({ topic: 't', id: '1' });
    expect(await problems()).toEqual([]);
    expect(Number((await under.raw.zrange('{dq:0}:d', '0', '-1', 'WITHSCORES'))[1])).toBe(when.at);
  });

  it('promote: repairs a wrong head and moves no job early', async () => {
    const { under, trial } = await opened({ plainPolls: false });
    await trial.push('1', { when: { delayMs: 60_000 } });
    await trial.push('2', { when: { delayMs: 60_000 } });
    const [head] = await under.raw.zrangeBuffer('{dq:0}:d', '0', '0');
    await under.raw.zadd('{dq:0}:d', 1, head as Buffer);
    const { moved, waitMs } = await trial.promote();
    expect(moved).toBe(0);
    expect(waitMs).toBeGreaterThan(50_000);
    expect(await trial.known('2')).toMatchObject({ state: 'delayed' });
    expect((await under.store.admin.counts()).topics['t']).toMatchObject({ delayed: 2 });
  });

  it('dead requeue: sends many ids in bounded script calls', async () => {
    const { under, trial } = await opened();
    const some = Array.from({ length: 2 * redisLimits.stepMax + 1 }, (_, n) => `job-${n}`);
    await trial.jobs.push(some.map((id) => jobOf(id)));
    for (let left = some.length; left > 0; ) {
      const reserved = await trial.jobs.reserve(0, request(limits.reserveMax));
      await trial.jobs.bury(reserved.jobs.map((job) => ({ ...job, reason: 'gone', attempt })));
      left -= reserved.jobs.length;
    }
    const { redis } = under;
    const argsOfCalls: number[] = [];
    const counting = {
      partitions: redis.partitions,
      everywhere: (key: JobKey) => redis.everywhere(key),
      placeOf: () => null,
      lastingNameOf: () => '',
      run: (script: ScriptName, partition: Partition, args: readonly Arg[]) => {
        argsOfCalls.push(args.length);
        return redis.run(script, partition, args);
      },
    } as unknown as Shards;
    const { requeue } = deadCalls(counting);
    expect(await requeue({ topic: 't', ids: some }, limits.bulkMax)).toEqual({
      requeued: some.length,
      more: false,
    });
    expect(argsOfCalls).toHaveLength(3);
    expect(Math.max(...argsOfCalls)).toBeLessThan(redisLimits.stepMax + 10);
  });

  it('fsck: names broken invariants with an example', async () => {
    const { under, trial } = await opened();
    await filled(trial);
    await trial.push('large', { topic: 'broken', body: Buffer.alloc(2_000) });
    const [head] = await under.raw.zrangeBuffer('{dq:0}:l', '0', '0');
    await under.raw.zrem('{dq:0}:l', head as Buffer);
    await under.raw.del('{dq:0}:b');
    await under.raw.hset('{dq:0}:p', Buffer.from('00000100', 'hex'), '{}');
    const { problems: found } = await examined(trial);
    expect(found.map(({ what, count }) => [what, count])).toEqual([
      ['jobs in the wrong set for their state', 1],
      ['jobs without a body', 2],
      ['attempts without a job', 1],
    ]);
    expect(found[0]?.examples).toEqual(['by.reserved/1']);
  });

  it('versions: each bucket draws its own remainder', async () => {
    const { under, trial } = await opened({ buckets: 4 });
    const far = Date.now() * 1_000 + 10_000_000_000;
    for (const [n, bucket] of [0, 1, 2, 3].entries())
      await under.raw.hset(`{dq:${bucket}}:n`, 'seq', far + n * 7);
    for (let n = 0; n < 40; n += 1) {
      const { version } = await trial.push(String(n));
      expect(version).toBeGreaterThan(far);
      expect(version % 4).toBe(bucketOf({ topic: 't', id: String(n) }, 4));
    }
  });

  // After the second one the clock has the same last 20 bits, also halved.
  it.each([7, 262_144])(
    'numbers: after a loss, and a clock set back, no lost one returns (%s ms later)',
    async (downMs) => {
      const clock = new SteppedClock();
      const { under, trial } = await opened({ clock });
      await trial.push('a');
      const back = await snapshot(under.raw);
      await clock.skip(-3_600_000);
      const lost = [await trial.lease(), await trial.push('b')] as const;
      await back();
      await clock.skip(downMs);
      const kept = [await trial.lease(), await trial.push('b')] as const;
      expect(kept[0]).toMatchObject({ id: 'a', version: lost[0].version });
      expect(kept[0].token).not.toBe(lost[0].token);
      expect(kept[1].version).not.toBe(lost[1].version);
      expect(await trial.ack(lost[0])).toEqual({ kind: 'lease_lost' });
      expect(await trial.ack(kept[0])).toEqual({ kind: 'acked' });
    },
  );

  it.each([1, 262_144])(
    'numbers: after a loss while the clock is behind, all are above the lost ones (%s ms later)',
    async (downMs) => {
      const clock = new SteppedClock();
      const { under, trial } = await opened({ clock, buckets: 16 });
      const push = async () => (await trial.push('a')).version;
      await push();
      await clock.skip(-3_600_000);
      await push();
      const back = await snapshot(under.raw);
      const lost: number[] = [];
      for (let n = 0; n < 20; n += 1) {
        await clock.skip(5);
        lost.push(await push());
      }
      await back();
      await clock.skip(downMs);
      expect(await push()).toBeGreaterThan(Math.max(...lost));
    },
  );

  it('numbers: a clock set back costs some seconds once, and again only when it is set back again', async () => {
    const clock = new SteppedClock();
    const { trial } = await opened({ clock });
    const push = async () => (await trial.push('a')).version;
    let last = await push();
    const rise = async () => {
      const before = last;
      last = await push();
      return last - before;
    };
    for (const backMs of [-3_600_000, -200]) {
      await clock.skip(backMs);
      const skipped = await rise();
      expect(skipped).toBeGreaterThanOrEqual(1_000_000);
      expect(skipped).toBeLessThan(18_000_000);
      expect(await rise()).toBe(1);
      await clock.skip(-50);
      expect(await rise()).toBe(1);
      await clock.skip(50);
      expect(await rise()).toBe(25_000);
    }
    await clock.skip(7_200_000);
    last = await push();
    expect(last).toBe(clock.now * 1_000);
    // The clock of the last draw while it was behind is long ago, and tells nothing.
    await clock.skip(-3_600_000);
    const again = await rise();
    expect(again).toBeGreaterThanOrEqual(1_000_000);
    expect(again).toBeLessThan(18_000_000);
  });

  it('numbers: a build that draws without a note does not make them run away from the clock', async () => {
    const clock = new SteppedClock();
    const { under, trial } = await opened({ clock });
    await trial.push('a');
    await clock.skip(-3_600_000);
    let { version: last } = await trial.push('a');
    for (let n = 0; n < 10; n += 1, last += 2) {
      await under.raw.hincrby('{dq:0}:n', 'seq', 1);
      expect((await trial.push('a')).version).toBe(last + 2);
    }
    // Its last number was drawn before the clock was set back again.
    await clock.skip(-3_600_000);
    await under.raw.hincrby('{dq:0}:n', 'seq', 1);
    expect((await trial.push('a')).version).toBeGreaterThanOrEqual(last + 1_000_000);
  });

  it('numbers: the clock catches up with them', async () => {
    const clock = new SteppedClock();
    const { trial } = await opened({ clock });
    const { version } = await trial.push('first');
    await clock.skip(-60_000);
    const ahead = async (id: string) => (await trial.push(id)).version - clock.now * 1_000;
    const distances = [await ahead('a')];
    for (let n = 0; n < 50; n += 1) {
      await clock.skip(100);
      distances.push(await ahead(`b${n}`));
    }
    // They rise by at most half of what the clock rises.
    expect(distances.at(-1)).toBeLessThanOrEqual((distances[0] as number) - 2_500_000);
    expect(version - clock.now * 1_000).toBe(55_000_000);
  });

  it('numbers: many draws at one moment leave the clock no further behind', async () => {
    const clock = new SteppedClock();
    const { trial } = await opened({ clock });
    await trial.push('first');
    await clock.skip(-60_000);
    const { version } = await trial.push('a');
    const many = 2_000;
    await trial.jobs.push(Array.from({ length: many }, (_, n) => jobOf(`b${n}`)));
    expect((await trial.push('z')).version).toBe(version + many + 1);
  });

  it('SCRIPT FLUSH: calls continue', async () => {
    const { server, trial } = await opened();
    await trial.push('1');
    await server.ask('SCRIPT', 'FLUSH');
    await trial.push('2');
    expect(await trial.reserve(request(5))).toHaveLength(2);
  });

  it('emptied server: marked again, logged, and no number repeats', async () => {
    const { log, errors } = hearing();
    const { server, trial } = await opened({ log });
    const first = await trial.push('1');
    await server.ask('FLUSHALL');
    expect(await trial.tryPush('1')).toEqual({ kind: 'not_stored', code: 'no_marker' });
    const again = await until('it to be marked', async () => {
      const outcome = await trial.tryPush('1');
      return outcome.kind === 'stored' ? outcome : null;
    });
    expect(again.version).toBeGreaterThan(first.version);
    expect(errors).toEqual(['redis: jobs are lost; the server was emptied, or restarted without its data']);
  });

  it('emptied server: two processes write the same marker', async () => {
    const { server, trial } = await opened();
    await trial.push('1');
    await server.ask('FLUSHALL');
    const other = await openOn(server);
    expect(await other.store.jobs.push([jobOf('2')])).toMatchObject([{ kind: 'stored' }]);
    expect(await trial.tryPush('3')).toMatchObject({ kind: 'stored' });
    await other.close();
  });

  it.each([
    ['another registry', { registryId: async () => 'r2' }],
    ['another number of buckets', { buckets: 4 }],
  ])('foreign server: %s is rejected with a reason and left unchanged', async (_, other) => {
    const { server, under, trial } = await opened();
    await filled(trial);
    const { log, errors } = hearing();
    const before = await allKeys(under.raw);
    const stranger = await openOn(server, { ...other, log });
    expect(await stranger.store.jobs.push([jobOf('1')])).toEqual([
      { kind: 'not_stored', code: 'foreign_marker' },
    ]);
    await expect(stranger.store.admin.counts()).rejects.toThrow('foreign_marker');
    expect(await stranger.store.admin.health()).toMatchObject({ ok: false });
    expect(errors).toEqual([expect.stringMatching(/^this Redis is not ours: it /)]);
    expect(await allKeys(under.raw)).toEqual(before);
    // The remedy works on the open connection.
    await server.ask('FLUSHALL');
    await until('it is in use', () => stranger.shard.isReady);
    expect(stranger.shard.server.foreign).toBeNull();
    await stranger.close();
  });

  it('registry id: no server is used before it is known', async () => {
    const { log, errors } = hearing();
    let known = false;
    const registryId = async () => {
      if (!known) throw new StoreError({ kind: 'not_stored', code: 'unreachable' });
      return 'r1';
    };
    const { server, trial } = await opened({ log, registryId });
    expect(await trial.tryPush('1')).toEqual({ kind: 'not_stored', code: 'registry_away' });
    expect(await server.ask('DBSIZE')).toBe('0');
    known = true;
    await until('it to be used', async () => (await trial.tryPush('1')).kind === 'stored');
    expect(errors).toEqual(['redis: waits for the registry, whose id it needs']);
  });

  it('hints that no listener waits for cost no connection; the first listener opens it', async () => {
    const { server, trial } = await opened({ hints: false });
    const connections = async () => (await server.ask('CLIENT', 'LIST')).trim().split('\n').length;
    const before = await connections();
    const hints: string[] = [];
    trial.jobs.onHint((hint) => hints.push(hint.kind));
    await until('a hint to look', () => hints.includes('ready'));
    expect(await connections()).toBe(before + 1);
    hints.length = 0;
    await trial.push('1');
    await until('the hint of the push', () => hints.length > 0);
  });

  it('hints: listeners poll while the subscription is unproven, and no longer', async () => {
    const { server, trial } = await opened({});
    const hints: string[] = [];
    trial.jobs.onHint((hint) => hints.push(hint.kind));
    // Redis closes the connections of subscribers that lose their right, and rejects further subscriptions.
    await server.ask('ACL', 'SETUSER', 'default', 'resetchannels');
    await until('three polls', () => hints.filter((kind) => kind === 'ready').length >= 3);
    expect(hints).toContain('due');
    await server.ask('ACL', 'SETUSER', 'default', 'allchannels');
    await server.ask('CLIENT', 'KILL', 'TYPE', 'normal');
    await until('the store to be back', async () => (await trial.tryPush('1')).kind === 'stored');
    await until('a pause longer than two polls', async () => {
      const before = hints.length;
      const began = performance.now();
      while (performance.now() - began < 2.5 * limits.redisPollMs) await trial.known('1');
      return hints.length === before;
    });
  });

  it('unavailable server: calls fail at once; after it returns, hints are sent', async () => {
    const { server, under, trial } = await opened({}, ['appendonly yes', 'appendfsync always']);
    await trial.push('1');
    const hints: string[] = [];
    trial.jobs.onHint((hint) => hints.push(hint.kind));
    await server.process.kill();
    await until('the store to notice', () => !under.shard.isReady);
    expect(await trial.tryPush('2')).toEqual({ kind: 'not_stored', code: 'redis_away' });
    await expect(trial.promote()).rejects.toThrow('redis_away');
    expect(await under.store.admin.health()).toMatchObject({ ok: false });
    await server.process.start();
    await until('the server to be found', async () => (await trial.tryPush('3')).kind === 'stored');
    expect(await trial.known('1')).toMatchObject({ state: 'ready' });
    await until('a hint to look', () => hints.includes('due') && hints.includes('ready'));
    expect(await under.store.admin.health()).toMatchObject({ ok: true, warnings: [] });
  });

  it('a pause of this process does not count as silence of the server', async () => {
    const { trial } = await opened({ callMs: 2_000 });
    const pushed = trial.jobs.push([jobOf('1')]);
    // The call is sent, and its answer arrives while this process stands still.
    await new Promise((resolve) => setImmediate(resolve));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
    expect(await pushed).toMatchObject([{ kind: 'stored' }]);
  });

  it('frozen server: a push is unknown at its deadline; later calls work', async () => {
    const time = useJumpingTime();
    const { server, trial } = await opened({ callMs: 60_000 });
    await trial.push('1');
    await server.process.freeze();
    expect(await time.outlast(trial.tryPush('2'), 5_000)).toEqual({
      kind: 'unknown',
      code: 'redis_no_answer',
    });
    // Until the server answers, other calls fail at once.
    const rejected = { kind: 'not_stored', code: 'redis_no_answer' };
    expect(await trial.tryPush('3')).toEqual(rejected);
    for (const asked of [trial.promote(), trial.reserve(request(1)), trial.recover(), trial.admin.counts()])
      await expect(asked).rejects.toMatchObject({ failure: rejected });
    server.process.thaw();
    await until('calls to be served', async () => (await trial.jobs.get({ topic: 't', id: '1' })) !== null);
    // The unknown push was sent, and it ran.
    expect(await trial.known('2')).toMatchObject({ state: 'ready' });
  });

  it('reserve: many capacities are respected and read by ring copy', async () => {
    const { trial } = await opened();
    const names = Array.from({ length: 300 }, (_, n) => `topic${n}`);
    for (const topic of ['topic7', 'topic8', 'topic299', 'unlisted']) {
      await trial.push('1', { topic });
      await trial.push('2', { topic });
    }
    const topics = new Map(
      names.map((name, n) => [name, { room: name === 'topic8' ? 0 : 1, leaseMs: 60_000 + n }] as const),
    );
    const asked = { owner, max: 100, others: { room: 5, leaseMs: 1_000 }, topics };
    const reserve = async () =>
      (await trial.jobs.reserve(0, asked)).jobs.map((job) => [job.topic, job.leaseMs]);
    expect(await reserve()).toEqual([
      ['topic7', 60_007],
      ['topic299', 60_299],
      ['unlisted', 1_000],
      ['unlisted', 1_000],
    ]);
    expect((await reserve()).sort()).toEqual([
      ['topic299', 60_299],
      ['topic7', 60_007],
    ]);
    expect(await reserve()).toEqual([]);
  });

  it('reserve: many capacities follow new topic numbers after a data loss', async () => {
    const { server, trial } = await opened();
    const topics = new Map(
      Array.from({ length: 300 }, (_, n) => [`topic${n}`, { room: 1, leaseMs: 60_000 }] as const),
    );
    const reserve = async () =>
      (await trial.jobs.reserve(0, { owner, max: 100, others: { room: 0, leaseMs: 60_000 }, topics })).jobs;
    await trial.push('1', { topic: 'topic1' });
    expect(await reserve()).toHaveLength(1);
    await server.ask('FLUSHALL');
    // The first topic that comes back gets the number that another one had.
    await until('it to be stored', async () => {
      const outcome = await trial.tryPush('2', { topic: 'topic2' });
      return outcome.kind === 'stored';
    });
    await until('it to be reserved', async () => (await reserve()).length === 1);
  });

  it('failed script: unknown, and logged', async () => {
    const { log, errors } = hearing();
    const { under, trial } = await opened({ log });
    await trial.push('1');
    await under.raw.set('{dq:0}:h', 'no hash');
    expect(await trial.jobs.cancel([{ topic: 't', id: '1' }])).toEqual([
      { kind: 'unknown', code: 'redis_script_failed' },
    ]);
    // A loop would repeat the call.
    await trial.jobs.cancel([{ topic: 't', id: '1' }]);
    expect(errors).toEqual(['redis: a script failed and may be half applied; run dq fsck']);
  });

  it('rights: without PUBLISH all but hints works', async () => {
    const server = await owned('test', startRedis());
    await server.ask('ACL', 'SETUSER', 'dq', 'on', '>pw', '~{dq:*', 'resetchannels', '+@all');
    const url = server.url.replace('//', '//dq:pw@');
    const { trial } = await openedEmpty(server, { url });
    await trial.push('later', { when: { delayMs: 60_000 } });
    await trial.push('now');
    expect(await trial.reserve(request(5))).toHaveLength(1);
  });

  it('rights: a missing command is reported before any script runs', async () => {
    const server = await owned('test', startRedis());
    await server.ask('ACL', 'SETUSER', 'dq', 'on', '>pw', '~{dq:*', '&*', '+@all', '-flushall', '-hdel');
    const { log, errors } = hearing();
    const { under } = await openedOn(server, { url: server.url.replace('//', '//dq:pw@'), log });
    expect(await under.store.jobs.push([jobOf('1')])).toEqual([{ kind: 'not_stored', code: 'redis_denied' }]);
    const denial = 'denies its user dq HDEL, which dq needs: ACL SETUSER dq +hdel';
    expect(errors).toEqual([`Redis ${denial}`]);
    expect(await under.store.admin.health()).toMatchObject({ ok: false, servers: [{ trouble: denial }] });
    expect(await allKeys(under.raw)).toEqual({});
    await server.ask('ACL', 'SETUSER', 'dq', '+hdel');
    await until('it to be used', () => under.shard.isReady);
    expect(await under.store.admin.health()).toMatchObject({ ok: true });
  });

  it('rights: a command denied later stops one script and no more', async () => {
    const server = await owned('test', startRedis());
    await server.ask('ACL', 'SETUSER', 'dq', 'on', '>pw', '~{dq:*', '&*', '+@all');
    const { log, errors } = hearing();
    const { under, trial } = await openedEmpty(server, { url: server.url.replace('//', '//dq:pw@'), log });
    await trial.push('1');
    await server.ask('ACL', 'SETUSER', 'dq', '-zadd', '-zrem');
    expect(await trial.tryPush('2')).toEqual({ kind: 'unknown', code: 'redis_script_failed' });
    const half = await allKeys(under.raw);
    const denial = /^denies its user dq ZADD, ZREM, which dq needs: ACL SETUSER dq \+zadd \+zrem$/;
    await until('it to be named', () => denial.test(under.shard.server.denial ?? ''));
    expect(await trial.tryPush('3')).toEqual({ kind: 'not_stored', code: 'redis_denied' });
    expect(await trial.jobs.cancel([{ topic: 't', id: '1' }])).toEqual([
      { kind: 'not_stored', code: 'redis_denied' },
    ]);
    expect(await allKeys(under.raw)).toEqual(half);
    expect(errors).toEqual([
      'redis: a script failed and may be half applied; run dq fsck',
      expect.stringContaining('ACL SETUSER dq +zadd +zrem'),
    ]);
    await server.ask('ACL', 'SETUSER', 'dq', '+zadd', '+zrem');
    await until('it to be used', () => under.shard.isReady);
    expect(await trial.push('2')).toMatchObject({ kind: 'stored' });
  });

  it('rights: a renamed command is reported with its remedy', async () => {
    const server = await owned(
      'test',
      startRedis({ config: ['rename-command HSCAN ""', 'rename-command ZCOUNT zz'] }),
    );
    const { log, errors } = hearing();
    const { under } = await openedOn(server, { log });
    expect(await under.store.jobs.push([jobOf('1')])).toEqual([{ kind: 'not_stored', code: 'redis_denied' }]);
    expect(errors).toEqual([expect.stringMatching(/^Redis has no command HSCAN, ZCOUNT, .*rename-command/)]);
    expect(await allKeys(under.raw)).toEqual({});
  });

  it('listed shard: without a marker it has lost its data', async () => {
    const { log, errors } = hearing();
    await opened({ log, isListed: true });
    expect(errors).toEqual(['redis: jobs are lost; the server was emptied, or restarted without its data']);
  });

  it('frozen server: plain commands fail at once too', async () => {
    const time = useJumpingTime();
    const { server, trial } = await opened({ callMs: 60_000 });
    await server.process.freeze();
    await expect(time.outlast(trial.promote(), 5_000)).rejects.toMatchObject({
      failure: { kind: 'unknown' },
    });
    await expect(trial.promote()).rejects.toMatchObject({ failure: { kind: 'not_stored' } });
    server.process.thaw();
    await until('it to be asked again', () =>
      trial
        .promote()
        .then(() => true)
        .catch(() => false),
    );
  });

  it('loading server: start does not wait for it', async () => {
    // 9 s in all; it sends a reply after about every five keys.
    const slow = ['key-load-delay 30000', 'loading-process-events-interval-bytes 1024'];
    const server = await owned('test', startRedis({ config: slow }));
    await server.ask('DEBUG', 'POPULATE', '300', 'k', '200');
    await server.ask('SAVE');
    await server.process.kill();
    await server.process.start(false);
    const isLoading = async () => {
      const answer = await server.ask('PING').catch((error: unknown) => String(error));
      return answer.includes('LOADING');
    };
    await until('it to load', isLoading);
    const { under } = await openedOn(server);
    expect(await isLoading()).toBe(true);
    expect(await under.store.jobs.push([jobOf('1')])).toMatchObject([{ kind: 'not_stored' }]);
    await server.ask('CONFIG', 'SET', 'key-load-delay', '0');
    await until(
      'a push to be stored',
      async () => (await under.store.jobs.push([jobOf('1')]))[0]?.kind === 'stored',
    );
  });

  it('close: while connecting, leaves no timer behind', async () => {
    const server = await owned('test', startRedis());
    await server.process.freeze();
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
    const before = timers();
    const under = oneShard(server);
    const started = under.start();
    await under.close();
    await started;
    await until('its timers to be over', () => timers() <= before);
  });

  it('pending calls: bounded; more are rejected as not stored', async () => {
    const time = useJumpingTime();
    const { server, trial } = await opened({ callMs: 60_000 });
    await server.process.freeze();
    const body = Buffer.alloc(8 * 1024 * 1024);
    const pushes = Array.from({ length: 10 }, (_, n) => trial.tryPush(String(n), { body }));
    const kinds = (await time.outlast(Promise.all(pushes), 5_000)).map((outcome) =>
      'code' in outcome ? outcome.code : outcome.kind,
    );
    server.process.thaw();
    expect(kinds.filter((code) => code === 'redis_behind')).toHaveLength(3);
  });
});
