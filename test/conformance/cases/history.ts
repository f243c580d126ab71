// History entries, their lifetime, and the expiry of dead letters.

import { expect } from 'vitest';
import type { EndState, JobSnapshot } from '../../../src/core/job.ts';
import { attemptOf, type Case, fact, farOffMs, leaseOf, longLeaseMs, only, type Trial } from '../trial.ts';

const key = { topic: 't', id: '1' };

/** the attempt of trial.ack */
const delivered = { outcome: 'delivered', reason: null, status: 200 } as const;

/** The history entry of a job. */
const entryOf = (job: Omit<JobSnapshot, 'body'>) => {
  const { topic, id, version, origin, dueAt, acceptedAt, failures, attempts } = job;
  return { topic, id, version, origin, dueAt, acceptedAt, failures, attempts };
};

/** Each way to end a job, and a dead letter. */
const endings: readonly (readonly [string, EndState, (trial: Trial) => Promise<unknown>])[] = [
  ['cancel', 'cancelled', (trial) => trial.cancel(key)],
  ['purgeTopic', 'purged', (trial) => trial.admin.purgeTopic('t', 10)],
];
const deadEndings: typeof endings = [
  ...endings,
  ['dead purge', 'purged', (trial) => trial.dead.purge({ topic: 't' }, 10)],
  ['expire', 'expired', (trial) => expireAll(trial)],
];

async function expireAll(trial: Trial) {
  await trial.tick();
  return trial.dead.expire(0, 10);
}

async function failedOnce(trial: Trial) {
  const first = await trial.reserved('1');
  await trial.retry(first, 0);
  return { first, second: await trial.lease() };
}

/** A dead letter whose alert was sent. */
async function deadAndMailed(trial: Trial, id: string) {
  const job = await trial.buried(id);
  await trial.alerts.settle([job.version], 'sent');
  return trial.known(id);
}

export const historyCases: readonly Case[] = [
  fact('history: keeps a job delivered at once with its attempt, without body', async (trial) => {
    await trial.bystanders();
    const job = await trial.reserved('1');
    const kept = { ...entryOf(await trial.known('1')), failures: 0, attempts: [attemptOf(job, delivered)] };
    await trial.changes(
      () => trial.ack(job),
      (_, now) => ({
        jobs: { 't/1': null },
        ended: { 't/1': { ...kept, state: 'done', endedAt: now } },
      }),
    );
    expect(await trial.unchanged(() => trial.history.get(key))).toEqual(only((await trial.dump()).ended));
    expect(await trial.jobs.get(key)).toBeNull();
  }),

  fact('history: keeps failed and successful attempts of a delivered job', async (trial) => {
    const { first, second } = await failedOnce(trial);
    await trial.ack(second);
    expect(await trial.history.get(key)).toMatchObject({
      state: 'done',
      failures: 1,
      attempts: [attemptOf(first), attemptOf(second, delivered)],
    });
  }),

  fact('history: keeps a job whose ack had no attempt', async (trial) => {
    const once = await trial.reserved('2');
    const { first, second } = await failedOnce(trial);
    await trial.jobs.ack([once, second].map((job) => ({ ...leaseOf(job), attempt: null })));
    expect(await trial.history.get({ topic: 't', id: '2' })).toMatchObject({ state: 'done', attempts: [] });
    expect(await trial.history.get(key)).toMatchObject({ state: 'done', attempts: [attemptOf(first)] });
  }),

  fact('history: keeps the last 10 attempts', async (trial) => {
    let job = await trial.reserved('1');
    for (let n = 0; n < 10; n += 1) {
      await trial.retry(job, 0);
      job = await trial.lease();
    }
    await trial.ack(job);
    const { attempts, failures } = (await trial.history.get(key)) ?? {};
    expect(failures).toBe(10);
    expect(attempts?.map(({ attempt }) => attempt)).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect(attempts?.at(-1)?.outcome).toBe('delivered');
  }),

  fact('history: keeps the attempts before a requeue', async (trial) => {
    const { first, second, again } = await trial.requeued('1');
    await trial.ack(again);
    expect(await trial.history.get(key)).toMatchObject({
      state: 'done',
      failures: 0,
      attempts: [attemptOf(first), attemptOf(second), attemptOf(again, delivered)],
    });
  }),

  fact('history: the end of a requeued job keeps the last 10 attempts', async (trial) => {
    let job = await trial.reserved('1');
    for (let n = 0; n < 9; n += 1) {
      await trial.retry(job, 0);
      job = await trial.lease();
    }
    await trial.bury(job);
    await trial.jobs.requeue([key]);
    await trial.ack(await trial.lease());
    const { attempts } = (await trial.history.get(key)) ?? {};
    expect(attempts?.map(({ attempt }) => attempt)).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10, 1]);
  }),

  ...endings.map(([verb, state, end]) =>
    fact(`history: ${verb} leaves a job as ${state}, with its attempts`, async (trial) => {
      await failedOnce(trial);
      const job = await trial.known('1');
      expect(job.attempts).toHaveLength(1);
      await trial.changes(
        () => end(trial),
        (_, now) => ({
          jobs: { 't/1': null },
          ended: { 't/1': { ...entryOf(job), state, endedAt: now } },
        }),
      );
    }),
  ),
  ...deadEndings.map(([verb, state, end]) =>
    fact(`history: ${verb} leaves a dead letter as ${state}, with its attempts`, async (trial) => {
      const { second } = await failedOnce(trial);
      await trial.bury(second);
      await trial.alerts.settle([second.version], 'sent');
      const job = await trial.known('1');
      expect(job.attempts).toHaveLength(2);
      await end(trial);
      expect(await trial.jobs.get(key)).toBeNull();
      expect(await trial.history.get(key)).toMatchObject({ ...entryOf(job), state });
    }),
  ),

  fact('history: a push removes the entry of its id; the next end writes one', async (trial) => {
    await trial.ack((await failedOnce(trial)).second);
    const second = await trial.push('1');
    expect(await trial.history.get(key)).toBeNull();
    expect((await trial.dump()).ended).toEqual([]);
    expect(await trial.known('1')).toMatchObject({ attempts: [], body: Buffer.from('body of 1') });
    await trial.cancel(key);
    const { version } = second;
    const fresh = { state: 'cancelled', version, origin: version, failures: 0, attempts: [] };
    expect(await trial.history.get(key)).toMatchObject(fresh);
  }),

  fact('history: a push after a delivery at once starts without attempts', async (trial) => {
    await trial.ack(await trial.reserved('1'));
    const again = await trial.reserved('1');
    expect(await trial.known('1')).toMatchObject({ attempts: [] });
    await trial.retry(again, 0);
    expect(await trial.known('1')).toMatchObject({ attempts: [attemptOf(again)] });
    await trial.cancel(key);
    expect(await trial.history.get(key)).toMatchObject({ attempts: [attemptOf(again)] });
  }),

  fact('history: replaced versions, moved jobs and dead letters leave no entry', async (trial) => {
    await trial.push('1');
    await trial.push('1');
    await trial.release(await trial.lease());
    await trial.jobs.reschedule([{ ...key, when: { delayMs: longLeaseMs } }]);
    await trial.jobs.run([key]);
    await trial.bury(await trial.lease());
    await trial.jobs.requeue([key]);
    expect(await trial.history.get(key)).toBeNull();
    expect((await trial.dump()).ended).toEqual([]);
  }),

  fact('history: no other call reads, moves or counts an ended job', async (trial) => {
    const job = await trial.reserved('1');
    await trial.ack(job);
    await trial.lost(job);
    await trial.unchanged(async () => {
      expect(await trial.cancel(key)).toEqual({ kind: 'absent' });
      expect(only(await trial.jobs.run([key]))).toEqual({ kind: 'absent' });
      expect(only(await trial.jobs.requeue([key]))).toEqual({ kind: 'absent' });
      const item = { ...key, when: { delayMs: 0 } };
      expect(only(await trial.jobs.reschedule([item]))).toEqual({ kind: 'absent' });
      expect((await trial.admin.counts()).topics).toEqual({});
      expect(await trial.admin.purgeTopic('t', 10)).toEqual({ purged: 0, more: false });
      expect((await trial.dead.list({ topic: 't', ids: ['1'] }, 10, null)).items).toEqual([]);
      expect(await trial.dead.purge({ topic: 't', ids: ['1'] }, 10)).toEqual({ purged: 0, more: false });
    });
    for (const mode of ['keep', 'reject', 'replace'] as const) {
      expect(await trial.tryPush('1', { mode })).toMatchObject({
        kind: 'stored',
        replaced: false,
        inFlight: false,
      });
      await trial.cancel(key);
    }
  }),

  fact('history: returns null for an unknown id', async (trial) => {
    await trial.ack(await trial.reserved('1'));
    expect(await trial.history.get({ topic: 't', id: '2' })).toBeNull();
    expect(await trial.history.get({ topic: 'u', id: '1' })).toBeNull();
  }),

  fact('forget: removes older entries, the oldest end first, at most max', async (trial) => {
    for (const id of ['1', '2', '3', '4']) {
      await trial.push(id);
      await trial.retry(await trial.lease(), longLeaseMs);
    }
    // Not in the order of their pushes.
    for (const id of ['3', '1', '4', '2']) {
      await trial.cancel({ topic: 't', id });
      await trial.tick();
    }
    const left = async () => (await trial.dump()).ended.map(({ id }) => id);
    expect(await trial.unchanged(() => trial.history.forget(farOffMs, 10))).toEqual({
      forgotten: 0,
      more: false,
    });
    expect(await trial.history.forget(0, 1)).toEqual({ forgotten: 1, more: true });
    expect(await left()).toEqual(['1', '2', '4']);
    expect(await trial.history.forget(0, 2)).toEqual({ forgotten: 2, more: true });
    expect(await left()).toEqual(['2']);
    await trial.push('1');
    expect(await trial.known('1')).toMatchObject({ failures: 0, attempts: [] });
  }),

  fact('expire: removes older dead letters, the oldest death first, at most max', async (trial) => {
    await trial.bystanders();
    const oldest = await deadAndMailed(trial, '3');
    await trial.tick();
    await deadAndMailed(trial, '1');
    await trial.tick();
    await deadAndMailed(trial, '2');
    await trial.tick();
    expect(await trial.unchanged(() => trial.dead.expire(farOffMs, 10))).toEqual({
      expired: 0,
      more: false,
    });
    await trial.changes(
      () => trial.dead.expire(0, 1),
      (outcome, now) => {
        expect(outcome).toEqual({ expired: 1, more: true });
        return {
          jobs: { 't/3': null },
          alerts: { [oldest.version]: null },
          ended: { 't/3': { ...entryOf(oldest), state: 'expired', endedAt: now } },
        };
      },
    );
    expect(await trial.dead.expire(0, 1)).toEqual({ expired: 1, more: true });
    expect((await trial.dead.list({ topic: 't' }, 10, null)).items.map(({ id }) => id)).toEqual(['2']);
  }),

  ...([400, -400] as const).map((days) =>
    fact(`expire and forget: a clock of the caller ${days} days off has no effect`, async (trial) => {
      await deadAndMailed(trial, 'young');
      await trial.ack(await trial.reserved('ended', { topic: 'u' }));
      await trial.tick();
      const expire = (olderThanMs: number) =>
        trial.withWrongClock(days, () => trial.dead.expire(olderThanMs, 10));
      const forget = (olderThanMs: number) =>
        trial.withWrongClock(days, () => trial.history.forget(olderThanMs, 10));
      expect(await trial.unchanged(() => expire(farOffMs))).toEqual({ expired: 0, more: false });
      expect(await trial.unchanged(() => forget(farOffMs))).toEqual({ forgotten: 0, more: false });
      expect(await forget(0)).toEqual({ forgotten: 1, more: false });
      expect(await expire(0)).toEqual({ expired: 1, more: false });
    }),
  ),

  ...(['owed', 'claimed'] as const).map((state) =>
    fact(`expire: keeps a dead letter whose alert is ${state}, however old`, async (trial) => {
      const job = await trial.buried('1');
      if (state === 'claimed') expect(await trial.alerts.claim('t', longLeaseMs, 10)).toHaveLength(1);
      await deadAndMailed(trial, '2');
      const expire = () => expireAll(trial);
      expect(await expire()).toEqual({ expired: 1, more: false });
      expect((await trial.dump()).jobs.map(({ id }) => id)).toEqual(['1']);
      await trial.alerts.settle([job.version], 'nobody');
      expect(await expire()).toEqual({ expired: 1, more: false });
      expect((await trial.dump()).alerts).toEqual([]);
    }),
  ),

  fact('expire: the alert of an earlier death does not count for a later one', async (trial) => {
    await deadAndMailed(trial, '1');
    await trial.jobs.requeue([key]);
    await trial.bury(await trial.lease());
    const expire = () => expireAll(trial);
    expect(await trial.unchanged(expire)).toEqual({ expired: 0, more: false });
  }),
];
