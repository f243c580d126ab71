// The changes that the store on Redis names for a journal: which calls name one, and its members.

import { describe, expect, it } from 'vitest';
import type { AttemptRecord } from '../../src/core/job.ts';
import type { Changed, ChangedJob } from '../../src/core/job-change.ts';
import { limits } from '../../src/core/limits.ts';
import type { OnChanged } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { farOffMs, jobOf, owner, type Trial } from '../conformance/trial.ts';
import { openedEmpty } from '../support/redis-store.ts';
import { lacks, workerRedis } from '../support/services.ts';
import { words } from '../support/words.ts';

const place = `${'5a'.repeat(8)}:0`;
const attempt: AttemptRecord = {
  ...{ attempt: 1, startedAt: 0, durationMs: 1, reason: 'status', status: 500 },
  ...{ outcome: 'failed', replyExcerpt: '', notifier: 'n', host: 'h' },
};

describe.skipIf(await lacks('redis'))('Redis store, changes', async () => {
  const server = await workerRedis();

  const opened = async () => (await openedEmpty(server, { writer: '7.9' })).trial;

  const changeOf = (outcome: object | undefined): Changed => {
    const { change } = (outcome ?? {}) as { readonly change?: Changed };
    if (change === undefined) throw new Error(`no change in ${JSON.stringify(outcome)}`);
    return change;
  };

  it('push: names the place; the number is the version', async () => {
    const trial = await opened();
    expect(await trial.push('a')).toMatchObject({ kind: 'stored', place });
    expect(await trial.tryPush('a', { mode: 'keep' })).toMatchObject({ kind: 'kept', place });
    expect(await trial.tryPush('a', { mode: 'reject' })).not.toHaveProperty('place');
  });

  it('ack, retry, bury, cancel, run, reschedule, requeue: name version, origin, due time and failures', async () => {
    const trial = await opened();
    const { jobs } = trial;
    const numbers: number[] = [];
    const follow = (change: Changed, expected: Partial<Changed>) => {
      expect(change).toMatchObject({ place, ...expected });
      numbers.push(change.number);
    };
    const first = await trial.reserved('a');
    const { version, origin } = first;
    numbers.push(version);
    const [retried] = await jobs.retry([{ ...first, delayMs: 60_000, attempt }]);
    const { dueAt } = await trial.known('a');
    follow(changeOf(retried), { version, origin, dueAt, failures: 1 });

    const [run] = await jobs.run([{ topic: 't', id: 'a' }]);
    const renewed = await trial.known('a');
    expect(renewed.version).toBeGreaterThan(version);
    follow(changeOf(run), { number: renewed.version, version: renewed.version, origin, failures: 1 });

    const second = await trial.lease();
    const [buried] = await jobs.bury([{ ...second, reason: 'no_retry', attempt }]);
    follow(changeOf(buried), { version: renewed.version, origin, dueAt: renewed.dueAt, failures: 2 });

    const [requeued] = await jobs.requeue([{ topic: 't', id: 'a' }]);
    const again = await trial.known('a');
    follow(changeOf(requeued), { version: again.version, origin, dueAt: again.dueAt, failures: 0 });

    const when = { at: again.dueAt + farOffMs };
    const [moved] = await jobs.reschedule([{ topic: 't', id: 'a', when }]);
    follow(changeOf(moved), { origin, dueAt: when.at, failures: 0 });

    const [cancelled] = await jobs.cancel([{ topic: 't', id: 'a' }]);
    const last = changeOf(cancelled);
    follow(last, { version: changeOf(moved).version, origin, dueAt: when.at });

    const third = await trial.reserved('b');
    const [acked] = await jobs.ack([{ ...third, attempt: null }]);
    follow(changeOf(acked), { version: third.version, origin: third.origin, failures: 0 });
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
    expect(new Set(numbers).size).toBe(numbers.length);
  });

  it('outcomes without a change name none', async () => {
    const trial = await opened();
    const job = await trial.reserved('a');
    const { jobs } = trial;
    const outcomes = [
      ...(await jobs.ack([{ ...job, token: job.token + 1, attempt: null }])),
      ...(await jobs.run([job])),
      ...(await jobs.reschedule([{ ...job, when: { delayMs: 0 } }])),
      ...(await jobs.requeue([job])),
      ...(await jobs.release([job])),
      ...(await jobs.cancel([{ topic: 't', id: 'absent' }])),
    ];
    expect(outcomes.map(({ kind }) => kind)).toEqual(words`
      lease_lost unchanged in_flight not_dead released absent
    `);
    for (const outcome of outcomes) expect(outcome).not.toHaveProperty('change');
  });

  it('bury: names the change of a poison job that recover named', async () => {
    const trial = await opened();
    const job = await trial.reserved('a');
    let lease = job;
    for (let strike = 1; strike < limits.strikesPoison; strike += 1) {
      await trial.jobs.recoverOwners(0, owner.instance, { living: [] }, 10);
      lease = await trial.lease();
    }
    const { poisoned } = await trial.jobs.recoverOwners(0, owner.instance, { living: [] }, 10);
    const buried = await trial.jobs.bury(
      poisoned.map((each) => ({ ...each, reason: 'poison', attempt: null })),
    );
    expect(buried).toMatchObject([
      { kind: 'buried', change: { place, version: job.version, origin: job.origin, failures: 0 } },
    ]);
    expect(changeOf(buried[0]).number).toBeGreaterThan(lease.token);
  });

  it.each([
    ['requeue', (trial: Trial, on: OnChanged) => trial.dead.requeue({}, 500, on)],
    ['purge', (trial: Trial, on: OnChanged) => trial.dead.purge({}, 500, on)],
    ['expire', (trial: Trial, on: OnChanged) => trial.dead.expire(-farOffMs, 500, on)],
    ['purgeTopic', (trial: Trial, on: OnChanged) => trial.admin.purgeTopic('t', 500, on)],
  ] as const)('%s in bulk: reports each job of a step before the next step', async (verb, bulk) => {
    const trial = await opened();
    const ids = ['a', 'b', 'c'];
    for (const id of ids) await trial.buried(id);
    const versions = await Promise.all(ids.map(async (id) => (await trial.known(id)).version));
    if (verb === 'expire') await trial.alerts.settle(versions, 'nobody');
    const seen: ChangedJob[] = [];
    const on = async (jobs: readonly ChangedJob[]) => void seen.push(...jobs);
    await bulk(trial, on);
    expect(seen.map(({ topic, id }) => `${topic}/${id}`).sort()).toEqual(['t/a', 't/b', 't/c']);
    for (const { id, number, version } of seen) {
      const old = versions[ids.indexOf(id)] as number;
      if (verb === 'requeue') expect([number, version > old]).toEqual([version, true]);
      else expect([version, number > old]).toEqual([old, true]);
    }
  });

  it('a failure of the report ends bulk work', async () => {
    const trial = await opened();
    await trial.buried('a');
    const failure = { kind: 'unknown', code: 'spool_failed' } as const;
    const purge = trial.dead.purge({}, 500, () => Promise.reject(new StoreError(failure)));
    await expect(purge).rejects.toMatchObject({ failure });
  });

  it('a shard that leaves the list during a call: its outcomes name their changes', async () => {
    const { under, trial } = await openedEmpty(server, { writer: '7.9' });
    const keys = ['a', 'b', 'c'].map((id) => ({ topic: 't', id }));
    for (const { id } of keys) await trial.buried(id);
    // The reply arrives, and before it is read the shard list changes.
    const { list, run } = under.redis;
    under.redis.run = async (...given) => {
      const reply = await run.apply(under.redis, given);
      under.redis.apply({ ...list, number: list.number + 1, shards: [] });
      return reply;
    };
    expect(await trial.jobs.cancel(keys)).toMatchObject(
      keys.map(() => ({ kind: 'cancelled', inFlight: false, change: { place } })),
    );
  });

  it('without a writer: names no change, and an ack draws no number', async () => {
    const { under, trial: plain } = await openedEmpty(server);
    const job = await plain.reserved('a');
    const before = await under.raw.hget('{dq:0}:n', 'seq');
    expect(await under.store.jobs.ack([{ ...job, attempt: null }])).toEqual([{ kind: 'acked' }]);
    expect(await under.raw.hget('{dq:0}:n', 'seq')).toBe(before);
    expect(await under.store.jobs.push([jobOf('b')])).toEqual([
      expect.not.objectContaining({ place: expect.anything() }),
    ]);
  });
});
