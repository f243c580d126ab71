// run, reschedule and requeue of one job: from each state, the fields they keep, and old leases.

import { expect } from 'vitest';
import type { JobState, Version } from '../../../src/core/job.ts';
import { words } from '../../support/words.ts';
import {
  attemptOf,
  type Case,
  dueAfter,
  fact,
  farOffMs,
  idsOf,
  only,
  request,
  type Trial,
  waitOf,
} from '../trial.ts';

const key = { topic: 't', id: '1' };
const run = async (trial: Trial) => only(await trial.jobs.run([key]));
const requeue = async (trial: Trial) => only(await trial.jobs.requeue([key]));
const reschedule = async (trial: Trial, delayMs: number) =>
  only(await trial.jobs.reschedule([{ ...key, when: { delayMs } }]));

/** A job with a failed attempt. */
async function failedOnce(trial: Trial, delayMs = farOffMs) {
  const job = await trial.reserved('1', { priority: 'high', contentType: null });
  expect(await trial.retry(job, delayMs)).toEqual({ kind: 'retried' });
  return job;
}

/** Each verb of a key that names a version, and the state that it changes. */
const versioned = {
  cancel: (trial: Trial, version: Version) => trial.jobs.cancel([{ ...key, version }]),
  run: (trial: Trial, version: Version) => trial.jobs.run([{ ...key, version }]),
  reschedule: (trial: Trial, version: Version) =>
    trial.jobs.reschedule([{ ...key, version, when: { delayMs: farOffMs } }]),
  requeue: (trial: Trial, version: Version) => trial.jobs.requeue([{ ...key, version }]),
};
const changed = { cancel: 'cancelled', run: 'run', reschedule: 'rescheduled', requeue: 'requeued' };
const versionedVerbs = ['cancel', 'run', 'reschedule', 'requeue'] as const;

const verbs = { run, requeue, reschedule: (trial: Trial) => reschedule(trial, 0) };

/** The outcome of each verb for a job that it leaves unchanged. */
const refusals: readonly (readonly [keyof typeof verbs, JobState | 'absent', object])[] = [
  ['run', 'ready', { kind: 'unchanged', state: 'ready' }],
  ['run', 'reserved', { kind: 'unchanged', state: 'reserved' }],
  ['run', 'dead', { kind: 'dead' }],
  ['run', 'absent', { kind: 'absent' }],
  ['reschedule', 'reserved', { kind: 'in_flight' }],
  ['reschedule', 'dead', { kind: 'dead' }],
  ['reschedule', 'absent', { kind: 'absent' }],
  ['requeue', 'delayed', { kind: 'not_dead', state: 'delayed' }],
  ['requeue', 'ready', { kind: 'not_dead', state: 'ready' }],
  ['requeue', 'reserved', { kind: 'not_dead', state: 'reserved' }],
  ['requeue', 'absent', { kind: 'absent' }],
];

export const verbCases: readonly Case[] = [
  ...refusals.map(([verb, state, answer]) =>
    fact(`${verb}: changes nothing when the job is ${state}`, async (trial) => {
      await trial.bystanders();
      const lease = state === 'absent' ? null : await trial.seed(state);
      const known = (await trial.dump()).jobs.find((job) => job.topic === 't');
      const outcome = await trial.unchanged<unknown>(() => verbs[verb](trial));
      const { version, dueAt } = known ?? {};
      expect(outcome).toEqual('state' in answer && verb === 'run' ? { ...answer, version, dueAt } : answer);
      if (state === 'reserved' && lease !== null) expect(await trial.ack(lease)).toEqual({ kind: 'acked' });
    }),
  ),

  ...versionedVerbs.flatMap((verb) => [
    fact(`${verb}: leaves a job alone that has another version than its caller read`, async (trial) => {
      await trial.bystanders();
      const state = verb === 'requeue' ? 'dead' : 'delayed';
      await trial.seed(state);
      const { version } = await trial.known('1');
      // A push of the same id, or what it became.
      await trial.seed(state);
      for (const other of [version, version - 1, Number.MAX_SAFE_INTEGER]) {
        const outcome = await trial.unchanged<readonly unknown[]>(() => versioned[verb](trial, other));
        expect(outcome).toEqual([{ kind: 'other_version' }]);
      }
    }),
    fact(`${verb}: changes a job of the named version, once`, async (trial) => {
      await trial.seed(verb === 'requeue' ? 'dead' : 'delayed');
      const { version } = await trial.known('1');
      expect(await versioned[verb](trial, version)).toEqual([
        expect.objectContaining({ kind: changed[verb] }),
      ]);
      const again = await trial.unchanged<readonly unknown[]>(() => versioned[verb](trial, version));
      expect(again).toEqual([{ kind: verb === 'cancel' ? 'absent' : 'other_version' }]);
    }),
  ]),

  fact('run: makes a delayed job ready as a new version with its history', async (trial) => {
    await trial.bystanders();
    const job = await failedOnce(trial);
    await trial.changes(
      () => run(trial),
      (outcome, now) => {
        expect(outcome).toEqual({ kind: 'run', version: expect.any(Number), dueAt: now });
        const { version, dueAt } = outcome as { version: number; dueAt: number };
        expect(version).toBeGreaterThan(job.token);
        return { jobs: { 't/1': { state: 'ready', version, dueAt } } };
      },
    );
    const again = await trial.lease();
    expect(again).toMatchObject({
      ...{ origin: job.origin, acceptedAt: job.acceptedAt, failures: 1, body: job.body },
    });
    await trial.lost(job);
    await trial.lost({ ...again, version: job.version });
    expect(await trial.ack(again)).toEqual({ kind: 'acked' });
  }),

  fact('run: an overdue job stays before later ones', async (trial) => {
    const { dueAt } = await trial.push('1', { when: { delayMs: 20 } });
    await trial.push('2', { when: { at: dueAt + 5 } });
    await trial.reach(dueAt + 20);
    expect(await run(trial)).toMatchObject({ kind: 'run', dueAt });
    await trial.promote();
    expect(idsOf(await trial.reserve(request(2)))).toEqual(['1', '2']);
  }),

  fact('run: keeps the strikes', async (trial) => {
    await trial.lostLease('1');
    await reschedule(trial, farOffMs);
    await run(trial);
    expect(await trial.lease()).toMatchObject({ strikes: 1, failures: 0 });
  }),

  ...(['delayed', 'ready'] as const).flatMap((from) => [
    fact(
      `reschedule: gives a ${from} job another due time, as a new version with its history`,
      async (trial) => {
        await trial.bystanders();
        const job = await failedOnce(trial, from === 'delayed' ? farOffMs : 0);
        await trial.changes(
          () => reschedule(trial, farOffMs / 2),
          (outcome, now) => {
            const due = dueAfter(now, farOffMs / 2);
            expect(outcome).toEqual({
              ...{ kind: 'rescheduled', state: 'delayed', version: expect.any(Number), dueAt: due },
            });
            const { version, dueAt } = outcome as { version: number; dueAt: number };
            expect(version).toBeGreaterThan(job.token);
            return { jobs: { 't/1': { state: 'delayed', version, dueAt } } };
          },
        );
        await trial.lost(job);
        expect((await trial.promote()).waitMs).toEqual(waitOf(dueAfter(0, farOffMs / 2)));
        expect(await trial.reserve(request(1, { t: 1 }))).toEqual([]);
      },
    ),

    fact(`reschedule: makes a ${from} job ready when its new time is past`, async (trial) => {
      await trial.seed(from);
      await trial.changes(
        async () => only(await trial.jobs.reschedule([{ ...key, when: { at: 1_600_000_000_000 } }])),
        (outcome, now) => {
          expect(outcome).toEqual({
            ...{ kind: 'rescheduled', state: 'ready', version: expect.any(Number), dueAt: now },
          });
          const { version, dueAt } = outcome as { version: number; dueAt: number };
          return { jobs: { 't/1': { state: 'ready', version, dueAt } } };
        },
      );
      expect(await trial.lease()).toMatchObject({ id: '1' });
      expect((await trial.promote()).waitMs).toBeNull();
    }),
  ]),

  fact('reschedule: a recovered lease finishes nothing afterwards', async (trial) => {
    const lease = await trial.lostLease('1');
    await reschedule(trial, 0);
    const again = await trial.lease();
    await trial.lost(lease);
    await trial.lost({ ...lease, token: again.token });
    expect(await trial.ack(again)).toEqual({ kind: 'acked' });
  }),

  fact('requeue: makes a dead letter ready as a new version; its alert stays owed', async (trial) => {
    await trial.bystanders();
    await failedOnce(trial, 0);
    const job = await trial.lease();
    await trial.bury(job);
    await trial.tick();
    await trial.changes(
      () => requeue(trial),
      (outcome, now) => {
        expect(outcome).toEqual({ kind: 'requeued', version: expect.any(Number), dueAt: now });
        const { version, dueAt } = outcome as { version: number; dueAt: number };
        const fresh = { failures: 0, strikes: 0, deadAt: null, deadReason: null };
        return { jobs: { 't/1': { ...fresh, state: 'ready', version, dueAt } } };
      },
    );
    const again = await trial.lease();
    expect(again).toMatchObject({
      ...{ origin: job.origin, acceptedAt: job.acceptedAt, failures: 0, body: job.body },
    });
    await trial.lost(job);
    expect(await trial.retry(again, 0)).toEqual({ kind: 'retried' });
  }),

  fact('requeue: keeps the attempts, and the next ones count from 1', async (trial) => {
    const { first, second, again } = await trial.requeued('1');
    const before = [attemptOf(first), attemptOf(second)];
    expect(await trial.known('1')).toMatchObject({ failures: 0, attempts: before });
    await trial.retry(again, 0);
    expect(await trial.known('1')).toMatchObject({ failures: 1, attempts: [...before, attemptOf(again)] });
    expect(attemptOf(again).attempt).toBe(1);
  }),

  fact('requeue: the last 10 attempts stay, whenever they were', async (trial) => {
    let { again: job } = await trial.requeued('1');
    for (let n = 0; n < 9; n += 1) {
      await trial.retry(job, 0);
      job = await trial.lease();
    }
    const { attempts } = await trial.known('1');
    expect(attempts.map(({ attempt }) => attempt)).toEqual([2, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  }),

  fact('push: of the id of a requeued job forgets its attempts', async (trial) => {
    await trial.requeued('1');
    await trial.push('1');
    expect((await trial.known('1')).attempts).toEqual([]);
  }),

  fact('verbs: return an outcome per item, in order', async (trial) => {
    await trial.seed('delayed', 'delayed');
    await trial.buried('dead');
    const all = ['delayed', 'dead', 'none', 'delayed'].map((id) => ({ topic: 't', id }));
    const kinds = (outcomes: readonly { readonly kind: string }[]) => outcomes.map(({ kind }) => kind);
    const when = { delayMs: farOffMs };
    expect(kinds(await trial.jobs.reschedule(all.map((each) => ({ ...each, when }))))).toEqual(words`
      rescheduled dead absent rescheduled
    `);
    expect(kinds(await trial.jobs.run(all))).toEqual(['run', 'dead', 'absent', 'unchanged']);
    expect(kinds(await trial.jobs.requeue(all))).toEqual(['not_dead', 'requeued', 'absent', 'not_dead']);
  }),
];
