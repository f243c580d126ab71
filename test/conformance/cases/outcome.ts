// Outcome jobs: the end of a job and the push of the job that follows it are one step.

import { expect } from 'vitest';
import type { ReservedJob } from '../../../src/core/job.ts';
import type { Outcome } from '../../../src/ports/job-store.ts';
import {
  attemptOf,
  type Case,
  fact,
  farOffMs,
  jobOf,
  leaseOf,
  only,
  type Pushed,
  type Trial,
} from '../trial.ts';

const base = 'msg_0:17';

/** What follows the end of a job. The store may add a suffix to its id. */
const outcomeOf = (more: Pushed = {}): Outcome => ({
  job: jobOf(base, { topic: 'next', mode: 'keep', contentType: 'application/json', ...more }),
  short: Buffer.from('{}'),
});

type End = (trial: Trial, job: ReservedJob, outcome?: Outcome) => Promise<{ readonly kind: string }>;
const ends: readonly (readonly [verb: string, done: string, End])[] = [
  [
    'ack',
    'acked',
    async (trial, job, outcome) =>
      only(await trial.jobs.ack([{ ...leaseOf(job), attempt: attemptOf(job), outcome }])),
  ],
  [
    'bury',
    'buried',
    async (trial, job, outcome) =>
      only(await trial.jobs.bury([{ ...leaseOf(job), reason: 'gone', attempt: attemptOf(job), outcome }])),
  ],
];

const next = async (trial: Trial) => (await trial.dump()).jobs.filter(({ topic }) => topic === 'next');

/** Where the store finds it by its id, as every caller does. */
async function found(trial: Trial) {
  const { id } = only(await next(trial));
  return trial.known(id, 'next');
}

export const outcomeCases: readonly Case[] = ends.flatMap(([verb, done, end]) => [
  fact(`outcome: ${verb} pushes the job that follows in the same step`, async (trial) => {
    await trial.bystanders();
    const job = await trial.reserved('1');
    const outcome = outcomeOf({ priority: 'high' });
    expect(await end(trial, job, outcome)).toEqual({ kind: done });
    const stored = await found(trial);
    expect(stored.id.startsWith(base)).toBe(true);
    const { body, contentType } = outcome.job;
    expect(stored).toMatchObject({ state: 'ready', dueAt: trial.now, body, contentType, failures: 0 });
    expect(stored.version).toBe(stored.origin);
    expect(stored.version).toBeGreaterThan(job.token);
    const left = (await trial.dump()).jobs.filter(({ topic }) => topic === 't');
    expect(left.map(({ state }) => state)).toEqual(verb === 'ack' ? [] : ['dead']);
    expect(await trial.lease('next')).toMatchObject({ id: stored.id, body });
  }),

  fact(`outcome: ${verb} of a lost lease pushes nothing`, async (trial) => {
    await trial.bystanders();
    const job = await trial.reserved('1');
    const lost = { kind: 'lease_lost' };
    for (const wrong of [{ token: job.token + 1 }, { version: job.version + 1 }, { id: '2' }])
      expect(await trial.unchanged(() => end(trial, { ...job, ...wrong }, outcomeOf()))).toEqual(lost);
    expect(await end(trial, job, outcomeOf())).toEqual({ kind: done });
    expect(await trial.unchanged(() => end(trial, job, outcomeOf()))).toEqual(lost);
    expect(await next(trial)).toHaveLength(1);
  }),

  fact(`outcome: ${verb} again after a loss pushes nothing while the id is known`, async (trial) => {
    await end(trial, await trial.reserved('1'), outcomeOf());
    const first = await found(trial);
    // The end of the same version runs again: only its outcome job shows that it did.
    expect(await end(trial, await trial.reserved('1'), outcomeOf())).toEqual({ kind: done });
    expect(await found(trial)).toEqual(first);
    await trial.ack(await trial.lease('next'));
    expect(await end(trial, await trial.reserved('1'), outcomeOf())).toEqual({ kind: done });
    expect(await next(trial)).toEqual([]);
  }),

  fact(`outcome: ${verb} delays the job that follows`, async (trial) => {
    const job = await trial.reserved('1');
    await end(trial, job, outcomeOf({ when: { delayMs: farOffMs } }));
    expect(await found(trial)).toMatchObject({ state: 'delayed', dueAt: trial.now + farOffMs + 1 });
  }),

  fact(`outcome: ${verb} keeps a large body and the options of the job that follows`, async (trial) => {
    const job = await trial.reserved('1');
    const body = Buffer.alloc(70_000, 'x');
    await end(trial, job, outcomeOf({ body, extension: Buffer.from([2, 1, 7]) }));
    const stored = await found(trial);
    expect(stored.body.equals(body)).toBe(true);
    expect(stored.extension).toEqual(Buffer.from([2, 1, 7]));
  }),

  fact(`outcome: of several leases of one ${verb} each pushes its own`, async (trial) => {
    const jobs = [];
    for (const id of ['1', '2', '3']) jobs.push(await trial.reserved(id));
    const items = jobs.map((job, n) => {
      const lease = n === 1 ? { ...leaseOf(job), token: job.token + 1 } : leaseOf(job);
      const follows = n === 2 ? undefined : jobOf(`msg_${n}`, { topic: 'next', mode: 'keep' });
      const outcome = follows && { job: follows, short: Buffer.from('{}') };
      return { ...lease, reason: 'gone' as const, attempt: attemptOf(job), outcome };
    });
    const outcomes = verb === 'ack' ? await trial.jobs.ack(items) : await trial.jobs.bury(items);
    expect(outcomes).toEqual([{ kind: done }, { kind: 'lease_lost' }, { kind: done }]);
    expect((await next(trial)).map(({ body }) => String(body))).toEqual(['body of msg_0']);
  }),
]);
