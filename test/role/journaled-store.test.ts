// The job store with a journal, on a real Redis: the records of each call, what it waits for, and its outcome
// when the spool is full or fails.

import { describe, expect, it } from 'vitest';
import { extensionOf } from '../../src/core/extension.ts';
import type { AttemptRecord } from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import { journalStoreLimits } from '../../src/journal/limits.ts';
import { journaled } from '../../src/journal/record/journaled-store.ts';
import type { JobStore, PushOutcome, Store } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { RandomOperations } from '../conformance/random-operations.ts';
import type { StoreUnderTest } from '../conformance/store-under-test.ts';
import { attemptOf, editOf, farOffMs, jobOf, owner, Trial } from '../conformance/trial.ts';
import { compareJournal } from '../support/journaled-store.ts';
import { MemorySpool } from '../support/memory-spool.ts';
import { openEmpty } from '../support/redis-store.ts';
import { lacks, owned, workerRedis } from '../support/services.ts';
import { readAll, spoolDirectory, writerIn } from '../support/spool.ts';
import { until } from '../support/until.ts';

const place = `${'5a'.repeat(8)}:0`;
const attempt: AttemptRecord = attemptOf({ failures: 0 });
const far = { when: { delayMs: farOffMs } } as const;

/** A store with a journal, and the same store without it for seeds. */
interface Journaled {
  readonly trial: Trial;
  readonly plain: Trial;
  readonly spool: MemorySpool;
}

/** Some operations reject: too many surveys, for example. */
function failedCall(error: unknown): null {
  if (error instanceof StoreError) return null;
  throw error;
}

describe.skipIf(await lacks('redis'))('a store with a journal', async () => {
  const server = await workerRedis();

  /** `alter`: replaces calls of the store below the journal. */
  async function opened(alter: (store: Store) => Partial<JobStore> = () => ({})): Promise<Journaled> {
    const under: StoreUnderTest = await openEmpty(server, { writer: '7.9' });
    await owned('test', Promise.resolve({ stop: () => under.close() }));
    const spool = new MemorySpool();
    const { store } = under;
    const altered = { ...store, jobs: { ...store.jobs, ...alter(store) } };
    return {
      ...{ plain: new Trial(under), spool },
      trial: new Trial({ ...under, store: journaled(altered, spool) }),
    };
  }

  /** The writes since the last look. */
  const written = (spool: MemorySpool) => spool.writes.splice(0);

  it('push: an accepted record of the whole job', async () => {
    const { trial, spool } = await opened();
    const extension = extensionOf({ leaseMs: 5_000 });
    const pushed = { ...far, extension, priority: 'high' } as const;
    const stored = await trial.push('a', pushed);
    expect(stored).not.toHaveProperty('place');
    const { version, dueAt } = stored;
    expect(spool.asked).toEqual([jobOf('a').body.length + journalStoreLimits.recordBytes]);
    const numbers = { number: version, version, origin: version, dueAt, failures: 0, place };
    const { acceptedAt, contentType, body } = await trial.known('a');
    const parts = { acceptedAt, contentType, body, priority: 'high', extension };
    expect(written(spool)).toEqual([
      {
        until: 'synced',
        changes: [{ kind: 'accepted', isOwn: true, topic: 't', id: 'a', ...numbers, ...parts }],
      },
    ]);
  });

  it('push: an imported job keeps its past in the record', async () => {
    const { trial, spool } = await opened();
    await trial.jobs.push([{ ...jobOf('a'), acceptedAt: 5_000, failures: 3 }]);
    expect(spool.changes).toMatchObject([{ acceptedAt: 5_000, failures: 3 }]);
  });

  it('push: jobs of one call are one group', async () => {
    const { trial, spool } = await opened();
    const outcomes = await trial.jobs.push([jobOf('a'), jobOf('b', { mode: 'reject' }), jobOf('a')]);
    expect(outcomes).toHaveLength(3);
    expect(written(spool).map(({ changes }) => changes.map(({ id }) => id))).toEqual([['a', 'b', 'a']]);
  });

  it('push: a rejected one leaves no record', async () => {
    const { trial, plain, spool } = await opened();
    await plain.push('a', far);
    expect(await trial.tryPush('a', { mode: 'reject' })).toMatchObject({ kind: 'job_exists' });
    expect(written(spool)).toEqual([]);
  });

  it('push: a kept job is read and recorded, with its version as number', async () => {
    const { trial, plain, spool } = await opened();
    const job = await plain.reserved('a', { body: Buffer.from('first') });
    await plain.retry(job, 60_000);
    const { version, dueAt, acceptedAt } = await plain.known('a');
    const kept = await trial.tryPush('a', { mode: 'keep', body: Buffer.from('second') });
    expect(kept).toEqual({ kind: 'kept', version, dueAt, state: 'delayed' });
    const record = { kind: 'accepted', isOwn: false, number: version, version, origin: version };
    expect(written(spool)).toMatchObject([
      {
        until: 'synced',
        changes: [{ ...record, place, dueAt, failures: 1, acceptedAt, body: Buffer.from('first') }],
      },
    ]);
  });

  it('push: a job that ends before it is read is pushed again', async () => {
    let ends = 1;
    const { trial, plain, spool } = await opened((store) => ({
      get: async (key) => {
        if (ends > 0) await store.jobs.cancel([key]);
        ends -= 1;
        return store.jobs.get(key);
      },
    }));
    await plain.push('a', far);
    const outcome = await trial.tryPush('a', { mode: 'keep', body: Buffer.from('second') });
    expect(outcome).toMatchObject({ kind: 'stored' });
    expect(written(spool)).toMatchObject([{ changes: [{ isOwn: true, body: Buffer.from('second') }] }]);
  });

  it('push: a kept job that cannot be read is unknown', async () => {
    const failure = { kind: 'not_stored', code: 'redis_away' } as const;
    const { trial, plain, spool } = await opened(() => ({
      get: () => Promise.reject(new StoreError(failure)),
    }));
    await plain.push('a', far);
    const outcome = await trial.tryPush('a', { mode: 'keep' });
    expect(outcome).toEqual({ kind: 'unknown', code: 'redis_away' });
    expect(written(spool)).toEqual([]);
  });

  it('push: few kept jobs are read at once', async () => {
    let reading = 0;
    let most = 0;
    const { trial, plain, spool } = await opened((store) => ({
      get: async (key) => {
        reading += 1;
        most = Math.max(most, reading);
        const job = await store.jobs.get(key);
        reading -= 1;
        return job;
      },
    }));
    const jobs = Array.from({ length: 20 }, (_, n) => jobOf(`${n}`, { ...far, mode: 'keep' }));
    await plain.jobs.push(jobs);
    const outcomes = await trial.jobs.push([...jobs, jobOf('new')]);
    expect(outcomes.map(({ kind }) => kind)).toEqual([...jobs.map(() => 'kept'), 'stored']);
    expect(most).toBe(journalStoreLimits.keptAtOnceMax);
    expect(spool.changes.map(({ id }) => id).sort()).toEqual([...jobs.map(({ id }) => id), 'new'].sort());
  });

  it('push: a kept job that never stays is unknown', async () => {
    const { trial, plain } = await opened(() => ({ get: async () => null }));
    await plain.push('a', far);
    expect(await trial.tryPush('a', { mode: 'keep' })).toMatchObject({ kind: 'unknown' });
  });

  it('push: an early report follows its record, before the other jobs have outcomes', async () => {
    const early: unknown[] = [];
    const { trial, spool } = await opened((store) => ({
      push: async (jobs, onStored) => {
        const outcomes = await store.jobs.push(jobs);
        onStored?.(0, outcomes[0] as PushOutcome);
        await until('the early report', () => early.length > 0 || spool.isFailing);
        return outcomes;
      },
    }));
    const report = (at: number, { kind }: PushOutcome) => early.push([at, kind, spool.writes.length]);
    const outcomes = await trial.jobs.push([jobOf('a'), jobOf('b')], report);
    expect(early).toEqual([[0, 'stored', 1]]);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['stored', 'stored']);
    expect(written(spool).map(({ changes }) => changes.map(({ id }) => id))).toEqual([['a'], ['b']]);
    spool.isFailing = true;
    const failed = await trial.jobs.push([jobOf('a'), jobOf('b')], report);
    expect(early).toHaveLength(1);
    expect(failed.map(({ kind }) => kind)).toEqual(['unknown', 'unknown']);
  });

  it('push: a job under another id is recorded under it', async () => {
    const { trial, spool } = await opened((store) => ({
      push: async (jobs) =>
        (await store.jobs.push(jobs.map((job) => ({ ...job, id: 'other' })))).map((outcome) => ({
          ...outcome,
          id: 'other',
        })) as PushOutcome[],
    }));
    expect(await trial.tryPush('a')).toMatchObject({ kind: 'stored', id: 'other' });
    expect(spool.changes).toMatchObject([{ id: 'other' }]);
    spool.isFailing = true;
    expect(await trial.tryPush('a')).toEqual({ kind: 'unknown', code: 'spool_failed', id: 'other' });
  });

  it.each([
    [undefined, 'cancelled'],
    ['done', 'done'],
  ] as const)('cancel as %s: an ended record whose version is its number', async (as, end) => {
    const { trial, plain, spool } = await opened();
    const { version } = await plain.push('a', far);
    const [outcome, absent] = await trial.jobs.cancel([jobOf('a'), jobOf('absent')], as);
    expect([outcome, absent]).toEqual([{ kind: 'cancelled', inFlight: false }, { kind: 'absent' }]);
    const [write] = written(spool);
    expect(write).toMatchObject({
      until: 'synced',
      changes: [{ kind: 'ended', end, origin: version, place }],
    });
    const [{ number, version: ofEnd } = { number: 0, version: 0 }, ...others] = write?.changes ?? [];
    expect([ofEnd, number > version, others]).toEqual([number, true, []]);
  });

  it('run, reschedule, requeue: a moved record', async () => {
    const { trial, plain, spool } = await opened();
    const { version: origin } = await plain.push('a', far);
    const moved = async (
      by: string,
      outcome: { readonly kind: string; readonly version?: number } | undefined,
    ) => {
      expect(outcome).not.toHaveProperty('change');
      const { version } = outcome as { version: number };
      const change = { kind: 'moved', by, isOwn: true, id: 'a', number: version, version, origin };
      const { dueAt } = await plain.known('a');
      expect(written(spool)).toMatchObject([{ until: 'synced', changes: [{ ...change, dueAt }] }]);
    };
    await moved('reschedule', (await trial.jobs.reschedule([{ ...jobOf('a'), ...far }]))[0]);
    await moved('run', (await trial.jobs.run([jobOf('a')]))[0]);
    await plain.bury(await plain.lease());
    await moved('requeue', (await trial.jobs.requeue([jobOf('a')]))[0]);
    expect(await trial.jobs.run([jobOf('a')])).toMatchObject([{ kind: 'unchanged' }]);
    expect(written(spool)).toEqual([]);
  });

  it('edit: an accepted record of the whole job under its new origin', async () => {
    const { trial, plain, spool } = await opened();
    await plain.retry(await plain.reserved('a'), farOffMs);
    const before = await plain.known('a');
    const item = editOf(before);
    const [outcome] = await trial.jobs.edit([item]);
    expect(outcome).not.toHaveProperty('change');
    const { origin, version, dueAt, acceptedAt, contentType, body } = await plain.known('a');
    expect(origin).toBeGreaterThan(before.version);
    expect(spool.asked).toEqual([item.body.length + journalStoreLimits.recordBytes]);
    const numbers = { number: version, version, origin, dueAt, failures: 1, place };
    const parts = { acceptedAt, contentType, body, priority: item.priority, extension: item.extension };
    expect(written(spool)).toEqual([
      {
        until: 'synced',
        changes: [{ kind: 'accepted', isOwn: true, topic: 't', id: 'a', ...numbers, ...parts }],
      },
    ]);
    expect(await trial.jobs.edit([item])).toEqual([{ kind: 'other_version' }]);
    expect(written(spool)).toEqual([]);
  });

  it('ack, retry, bury: a record with the attempt, which does not wait for the disk', async () => {
    const { trial, plain, spool } = await opened();
    const waits = 'written';
    const first = await plain.reserved('a');
    const { version, origin } = first;
    const numbers = { isOwn: true, topic: 't', id: 'a', place, version, origin };
    expect(await trial.retry(first, 0, attempt)).toEqual({ kind: 'retried' });
    const { dueAt } = await plain.known('a');
    const retried = { ...numbers, kind: 'retried', dueAt, failures: 1, attempt };
    expect(written(spool)).toEqual([{ until: waits, changes: [{ ...retried, number: expect.any(Number) }] }]);
    expect(await trial.retry(await plain.lease(), 0, null)).toEqual({ kind: 'retried' });
    expect(written(spool)).toMatchObject([
      { until: waits, changes: [{ ...numbers, kind: 'retried', failures: 1, attempt: null }] },
    ]);

    expect(await trial.bury(await plain.lease(), 'gone')).toEqual({ kind: 'buried' });
    expect(written(spool)).toMatchObject([
      { until: waits, changes: [{ ...numbers, kind: 'dead', reason: 'gone' }] },
    ]);

    await plain.jobs.requeue([first]);
    const second = await plain.lease();
    expect(await trial.ack(second)).toEqual({ kind: 'acked' });
    const acked = { kind: 'ended', end: 'done', version: second.version, origin };
    expect(written(spool)).toMatchObject([{ until: waits, changes: [acked] }]);
    expect(await trial.ack(second)).toEqual({ kind: 'lease_lost' });
    expect(written(spool)).toEqual([]);
  });

  it('ack: a lost lease leaves no record', async () => {
    const { trial, plain, spool } = await opened();
    const lease = await plain.reserved('a');
    await plain.jobs.cancel([lease]);
    expect(await trial.ack(lease)).toEqual({ kind: 'lease_lost' });
    expect(written(spool)).toEqual([]);
  });

  it('promote, reserve, extend, release: no record', async () => {
    const { trial, plain, spool } = await opened();
    await plain.push('a', { when: { delayMs: 1 } });
    await until('it to be due', async () => (await trial.promote()).moved === 1);
    const lease = await trial.lease();
    await trial.jobs.extend([{ ...lease, leaseMs: 5 }]);
    await trial.jobs.releaseUnheld(trial.partition, owner, [], Number.MAX_SAFE_INTEGER);
    await trial.release(lease);
    expect([written(spool), spool.asked]).toEqual([[], []]);
  });

  it('bury: a dead record of a poison job that recover named', async () => {
    const { trial, plain, spool } = await opened();
    const { version, origin } = await plain.reserved('a');
    const recover = (which: Trial) => which.jobs.recoverOwners(0, owner.instance, { living: [] }, 10);
    for (let strike = 1; strike < limits.strikesPoison; strike += 1) {
      expect(await recover(trial)).toMatchObject({ returned: 1 });
      await plain.lease();
    }
    expect(written(spool)).toEqual([]);
    const { poisoned } = await recover(trial);
    expect(written(spool)).toEqual([]);
    await trial.jobs.bury(poisoned.map((lease) => ({ ...lease, reason: 'poison', attempt: null })));
    const dead = { kind: 'dead', reason: 'poison', attempt: null, version, origin, failures: 0 };
    expect(written(spool)).toMatchObject([{ until: 'written', changes: [dead] }]);
  });

  it.each([
    ['requeue', 'synced', { kind: 'moved', by: 'requeue' }, (t: Trial) => t.dead.requeue({}, 500)],
    ['purge', 'synced', { kind: 'ended', end: 'purged' }, (t: Trial) => t.dead.purge({}, 500)],
    ['expire', 'written', { kind: 'ended', end: 'expired' }, (t: Trial) => t.dead.expire(-farOffMs, 500)],
    ['purgeTopic', 'synced', { kind: 'ended', end: 'purged' }, (t: Trial) => t.admin.purgeTopic('t', 500)],
  ] as const)('%s in bulk: a record of each job', async (verb, waits, change, bulk) => {
    const { trial, plain, spool } = await opened();
    const jobs = [await plain.buried('a'), await plain.buried('b')];
    const versions = jobs.map(({ version }) => version);
    await plain.alerts.settle(versions, 'nobody');
    await bulk(trial);
    const writes = written(spool);
    expect(writes.map((write) => write.until)).toEqual(writes.map(() => waits));
    const changes = writes.flatMap(({ changes }) => changes);
    expect(changes.map(({ id }) => id).sort()).toEqual(['a', 'b']);
    for (const each of changes) {
      expect(each).toMatchObject({ ...change, isOwn: true, place });
      // An expiry ends a version, a purge the id.
      if (verb === 'expire') expect(versions).toContain(each.version);
      else expect(each.version).toBe(each.number);
    }
  });

  it('bulk: a full spool stops a requeue, not a purge; a failure ends the work as unknown', async () => {
    const { trial, plain, spool } = await opened();
    await plain.buried('a');
    spool.isFull = true;
    const full = { failure: { kind: 'not_stored', code: 'spool_full' } };
    await expect(trial.dead.requeue({}, 500)).rejects.toMatchObject(full);
    expect(await plain.known('a')).toMatchObject({ state: 'dead' });
    spool.isFailing = true;
    const failed = { failure: { kind: 'unknown', code: 'spool_failed' } };
    await expect(trial.dead.purge({}, 500)).rejects.toMatchObject(failed);
    expect(await plain.jobs.get(jobOf('a'))).toBeNull();
  });

  it('alerts: a record of each claimed one that is settled, not of one that is owed again', async () => {
    const { trial, plain, spool } = await opened();
    const { version } = await plain.buried('a');
    await trial.alerts.settle([version], 'sent');
    expect(written(spool)).toEqual([]);
    const { version: second } = await plain.buried('b');
    expect(await trial.alerts.claim('t', 60_000, 10)).toHaveLength(1);
    await trial.alerts.settle([second], 'owed');
    expect(written(spool)).toEqual([]);
    expect(await trial.alerts.claim('t', 60_000, 10)).toHaveLength(1);
    await trial.alerts.settle([second], 'sent');
    const alert = { kind: 'alert', topic: 't', id: 'b', number: second, version: second, isOwn: false };
    expect(written(spool)).toMatchObject([{ until: 'written', changes: [alert] }]);
  });

  it('a full spool: pushes and verbs are not stored, ends go on', async () => {
    const { trial, plain, spool } = await opened();
    const lease = await plain.reserved('a');
    await plain.push('b', far);
    spool.isFull = true;
    const { jobs } = trial;
    const full = { kind: 'not_stored', code: 'spool_full' };
    expect(await jobs.edit([editOf(await plain.known('b'))])).toEqual([full]);
    const before = await plain.dump();
    expect(await jobs.push([jobOf('c'), jobOf('d')])).toEqual([full, full]);
    expect(await jobs.run([jobOf('b')])).toEqual([full]);
    expect(await jobs.reschedule([{ ...jobOf('b'), ...far }])).toEqual([full]);
    expect(await jobs.requeue([jobOf('b')])).toEqual([full]);
    expect(await plain.dump()).toEqual(before);
    expect(written(spool)).toEqual([]);
    expect(await trial.ack(lease)).toEqual({ kind: 'acked' });
    expect(await trial.cancel(jobOf('b'))).toMatchObject({ kind: 'cancelled' });
    expect(written(spool)).toMatchObject([
      { changes: [{ end: 'done' }] },
      { changes: [{ end: 'cancelled' }] },
    ]);
  });

  it('a failed spool: outcomes with a change are unknown, the others stay', async () => {
    const { trial, plain, spool } = await opened();
    const lease = await plain.reserved('a');
    await plain.push('b', far);
    spool.isFailing = true;
    const { jobs } = trial;
    const failed = { kind: 'unknown', code: 'spool_failed' };
    expect(await jobs.push([jobOf('b', { mode: 'reject' }), jobOf('c')])).toMatchObject([
      { kind: 'job_exists' },
      failed,
    ]);
    expect(await jobs.run([jobOf('absent'), jobOf('b')])).toEqual([{ kind: 'absent' }, failed]);
    expect(await jobs.edit([editOf(await plain.known('b'))])).toEqual([failed]);
    expect(await jobs.cancel([jobOf('b'), jobOf('absent')])).toEqual([failed, { kind: 'absent' }]);
    expect(await trial.retry(lease, 0)).toEqual(failed);
    expect(await trial.retry(lease, 0)).toEqual({ kind: 'lease_lost' });
  });

  it('random operations: the spool on disk says what the store holds', async () => {
    const under = await openEmpty(server, { writer: '7.9' });
    const directory = spoolDirectory();
    const spool = await writerIn(directory);
    const store = journaled(under.store, spool);
    const seed = Number(process.env['DQ_SEED'] ?? Date.now() % 1_000_000_007);
    const source = new RandomOperations(seed, Date.now);
    for (let done = 0; done < 400; done += 1) {
      const drawn = source.some(() => source.draw(), 4);
      const answers = await Promise.all(drawn.map(({ call }) => call(store).catch(failedCall)));
      for (const answer of answers) source.learn(answer);
    }
    const { jobs } = await under.dump();
    await store.close();
    const { changes, state } = await readAll(directory);
    expect([state, jobs.length > 5, changes.length > 100], `seed ${seed}`).toEqual(['ended', true, true]);
    compareJournal(changes, jobs);
  });

  it('a store without changes is a bug', async () => {
    const under = await openEmpty(server);
    await owned('test', Promise.resolve({ stop: () => under.close() }));
    const plain = new Trial(under);
    const trial = new Trial({ ...under, store: journaled(under.store, new MemorySpool()) });
    await expect(trial.push('a')).rejects.toThrow('names no changes');
    await expect(trial.tryPush('a', { mode: 'keep' })).rejects.toThrow('names no changes');
    await expect(trial.ack(await plain.lease())).rejects.toThrow('names no changes');
  });

  it('health: what jobs survive, and a spool that rejects pushes', async () => {
    const under = await openEmpty(server, { writer: '7.9' });
    const spool = new MemorySpool();
    const { admin } = journaled(under.store, spool);
    expect(await admin.health()).toMatchObject({
      ok: true,
      durability: expect.stringContaining('Redis with a journal'),
    });
    spool.isFull = true;
    const health = await admin.health();
    expect([health.ok, health.warnings[0]]).toEqual([false, 'journal: the spool is full']);
  });

  it('close: ends the stream after the store', async () => {
    const under = await openEmpty(server, { writer: '7.9' });
    const spool = new MemorySpool();
    const order: string[] = [];
    const store = journaled(
      {
        ...under.store,
        close: async () => {
          order.push(`store, spool closed: ${spool.isClosed}`);
          await under.close();
        },
      },
      spool,
    );
    await store.close();
    expect([order, spool.isClosed]).toEqual([['store, spool closed: false'], true]);
  });
});
