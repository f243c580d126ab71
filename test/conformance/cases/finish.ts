// The four finishing writes, and their fence: version and token.

import { expect } from 'vitest';
import { extensionOf, optionsIn, withAgain } from '../../../src/core/extension.ts';
import { type DeadReason, pullOwner, type ReservedJob } from '../../../src/core/job.ts';
import { limits } from '../../../src/core/limits.ts';
import {
  attemptOf,
  type Case,
  dueAfter,
  fact,
  farOffMs,
  idsOf,
  leaseOf,
  only,
  owner,
  request,
  type Trial,
} from '../trial.ts';

type Finish = (trial: Trial, job: ReservedJob) => Promise<{ readonly kind: string }>;
const finishes: readonly (readonly [string, string, Finish])[] = [
  ['ack', 'acked', (trial, job) => trial.ack(job)],
  ['retry', 'retried', (trial, job) => trial.retry(job, 0)],
  ['bury', 'buried', (trial, job) => trial.bury(job)],
  ['release', 'released', (trial, job) => trial.release(job)],
];

const fences: readonly Case[] = finishes.flatMap(([name, done, finish]) => [
  fact(`${name}: rejects another token and another version`, async (trial) => {
    await trial.bystanders();
    const job = await trial.reserved('1');
    const lost = { kind: 'lease_lost' };
    for (const wrong of [
      { token: job.token + 1 },
      { token: job.token - 1 },
      { token: job.version },
      { version: job.version + 1 },
      { version: job.version - 1 },
      { version: job.token },
      { id: '2' },
      { topic: 'by.ready' },
      { topic: 'by.reserved' },
      { topic: 'none' },
    ])
      expect(await trial.unchanged(() => finish(trial, { ...job, ...wrong }))).toEqual(lost);
    expect(await finish(trial, job)).toEqual({ kind: done });
  }),

  fact(`${name}: a pull client ends its own lease, and no lease of a process`, async (trial) => {
    await trial.bystanders();
    const called = await trial.reserved('1');
    const shown = (job: ReservedJob) => finish(trial, { ...job, isPulled: true } as ReservedJob);
    expect(await trial.unchanged(() => shown(called))).toEqual({ kind: 'lease_lost' });
    const pulled = await trial.reserved('2', { topic: 'p' }, pullOwner);
    expect(await shown(pulled)).toEqual({ kind: done });
    expect(await finish(trial, called)).toEqual({ kind: done });
  }),

  fact(`${name}: finishes once; a repeat is rejected and changes nothing`, async (trial) => {
    await trial.bystanders();
    const job = await trial.reserved('1');
    expect(await finish(trial, job)).toEqual({ kind: done });
    await trial.lost(job);
  }),

  fact(`${name}: rejects a lease that was taken over`, async (trial) => {
    const first = await trial.lostLease('1');
    await trial.lost(first);
    const second = await trial.lease('t', { ...owner, incarnation: 2 });
    expect(second).toMatchObject({ id: '1', version: first.version });
    expect(second.token).toBeGreaterThan(first.token);
    expect(await trial.unchanged(() => finish(trial, first))).toEqual({ kind: 'lease_lost' });
    expect(await finish(trial, second)).toEqual({ kind: done });
  }),

  fact(`${name}: a late call never affects the next job of the id`, async (trial) => {
    const first = await trial.lostLease('1');
    const second = await trial.lease();
    expect(await trial.ack(second)).toEqual({ kind: 'acked' });
    const next = await trial.reserved('1', { body: Buffer.from('the next job') });
    expect(await trial.unchanged(() => finish(trial, first))).toEqual({ kind: 'lease_lost' });
    expect(await trial.unchanged(() => finish(trial, second))).toEqual({ kind: 'lease_lost' });
    expect(await finish(trial, next)).toEqual({ kind: done });
  }),

  fact(`${name}: finishes an expired lease until it is recovered`, async (trial) => {
    const job = await trial.reserved('1', {}, owner, 30);
    const ends = (await trial.dump()).jobs[0]?.lease?.untilMs ?? 0;
    await trial.reach(ends);
    expect(await finish(trial, job)).toEqual({ kind: done });
  }),
]);

export const finishCases: readonly Case[] = [
  ...fences,

  fact('ack: removes the job', async (trial) => {
    await trial.bystanders();
    const job = await trial.reserved('1');
    await trial.changes(
      () => trial.ack(job),
      () => ({ jobs: { 't/1': null } }),
    );
    expect(await trial.jobs.get({ topic: 't', id: '1' })).toBeNull();
  }),

  fact('retry: delays the job from now on and keeps the failed attempt', async (trial) => {
    await trial.bystanders();
    const job = await trial.reserved('1', { priority: 'high', contentType: null });
    const attempt = attemptOf(job, {
      ...{
        ...{ reason: 'timeout', status: null, replyExcerpt: '', latenessMs: 7 },
        detail: 'no whole reply “später”',
      },
      ...{ ruleValues: { '{res.code}': '500' }, replyHeaders: ['server: nginx'] },
      ...{ nextDelayMs: 60_000, nextBy: 'backoff' },
    });
    await trial.changes(
      () => trial.retry(job, 60_000, attempt),
      (_outcome, now) => ({
        jobs: {
          't/1': {
            ...{ state: 'delayed', dueAt: dueAfter(now, 60_000), failures: 1, lease: null },
            attempts: [attempt],
          },
        },
      }),
    );
  }),

  fact('retry: without delay makes the job ready at once', async (trial) => {
    await trial.bystanders();
    const job = await trial.reserved('1');
    await trial.changes(
      () => trial.retry(job, 0),
      (_outcome, now) => ({
        jobs: {
          't/1': { state: 'ready', dueAt: now, failures: 1, lease: null, attempts: [attemptOf(job)] },
        },
      }),
    );
    const again = await trial.lease();
    expect(again).toMatchObject({
      ...{ id: '1', version: job.version, origin: job.origin, failures: 1, body: job.body },
    });
  }),

  fact(
    'retry: without an attempt counts no failure, keeps the attempts and clears the strikes',
    async (trial) => {
      await trial.bystanders();
      const extension = extensionOf({ maxAttempts: 3 });
      await trial.retry(await trial.reserved('1', { extension }), 0);
      await trial.lease('t', owner, 30);
      await trial.clock.skip(30);
      expect(await trial.recover()).toMatchObject({ returned: 1 });
      const job = await trial.lease();
      expect(job).toMatchObject({ failures: 1, strikes: 1 });
      await trial.changes(
        () => trial.retry(job, 60_000, null),
        (_outcome, now) => ({
          jobs: { 't/1': { state: 'delayed', dueAt: dueAfter(now, 60_000), lease: null, strikes: 0 } },
        }),
      );
      const fresh = await trial.reserved('2');
      expect(await trial.retry(fresh, 0, null)).toEqual({ kind: 'retried' });
      expect(await trial.lease()).toMatchObject({
        id: '2',
        version: fresh.version,
        failures: 0,
        body: fresh.body,
      });
      expect(await trial.known('2')).toMatchObject({ failures: 0, attempts: [] });
    },
  ),

  ...(['with', 'without'] as const).flatMap((block) =>
    [true, false].map((counts) =>
      fact(
        `retry: a new block, ${block} an earlier one, ${counts ? 'with' : 'without'} an attempt`,
        async (trial) => {
          await trial.bystanders();
          const extension = block === 'with' ? extensionOf({ leaseMs: 70_000 }) : null;
          const job = await trial.reserved('1', { extension, contentType: 'application/x-unusual' });
          const attempt = counts ? attemptOf(job) : null;
          const next = withAgain(job.extension, 4);
          await trial.changes(
            () => trial.retry(job, 0, attempt, next),
            (_outcome, now) => ({
              jobs: {
                't/1': {
                  ...{ state: 'ready', dueAt: now, lease: null, extension: next },
                  ...(counts ? { failures: 1, attempts: [attempt] } : {}),
                },
              },
            }),
          );
          const again = await trial.lease();
          expect(again).toMatchObject({ extension: next, body: job.body, contentType: job.contentType });
          await trial.retry(again, 0, null, withAgain(again.extension, 5));
          expect(optionsIn((await trial.known('1')).extension).again).toBe(5);
          await trial.retry(await trial.lease(), 0, null);
          expect(optionsIn((await trial.known('1')).extension).again).toBe(5);
        },
      ),
    ),
  ),

  fact('retry: a new block of a lost lease is not stored', async (trial) => {
    const lost = await trial.lostLease('1');
    await trial.unchanged(() => trial.retry(lost, 0, null, withAgain(undefined, 1)));
    const job = await trial.lease();
    expect(job).not.toHaveProperty('extension');
    await trial.retry(job, 0, null, withAgain(undefined, 1));
    expect(await trial.unchanged(() => trial.retry(job, 0, null, withAgain(undefined, 2)))).toEqual({
      kind: 'lease_lost',
    });
  }),

  fact('retry: an item with a number that no store can keep fails alone', async (trial) => {
    await trial.push('1');
    await trial.push('2');
    const [a, b] = await trial.reserve(request(2));
    if (a === undefined || b === undefined) throw new Error('both are ready');
    const items = [
      { ...leaseOf(a), delayMs: Number.NaN, attempt: attemptOf(a) },
      { ...leaseOf(b), delayMs: 0, attempt: attemptOf(b) },
    ];
    expect(await trial.jobs.retry(items)).toEqual([
      { kind: 'not_stored', code: 'bad_item' },
      { kind: 'retried' },
    ]);
    expect(await trial.ack(a)).toEqual({ kind: 'acked' });
  }),

  fact('retry: waits for its delay', async (trial) => {
    const job = await trial.reserved('1');
    await trial.retry(job, 50);
    const { dueAt } = await trial.known('1');
    expect(await trial.reserve(request(1))).toEqual([]);
    expect(await trial.justBefore(dueAt, () => trial.promote())).toMatchObject({ moved: 0 });
    expect(await trial.promote()).toMatchObject({ moved: 1 });
    expect(await trial.lease()).toMatchObject({ failures: 1 });
  }),

  fact(`retry: keeps the last ${limits.attemptsKept} attempts, oldest first`, async (trial) => {
    await trial.push('1');
    for (let n = 0; n < limits.attemptsKept + 2; n += 1) await trial.retry(await trial.lease(), 0);
    const job = await trial.known('1');
    expect(job.failures).toBe(12);
    expect(job.attempts.map((attempt) => attempt.attempt)).toEqual([3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    const last = await trial.lease();
    await trial.bury(last);
    const dead = await trial.known('1');
    expect(dead.attempts.map((attempt) => attempt.attempt)).toEqual([4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
  }),

  ...(['attempts_exhausted', 'gone', 'no_retry', 'poison'] satisfies DeadReason[]).map((reason) =>
    fact(`bury: makes a dead letter for ${reason} and owes its alert in one step`, async (trial) => {
      await trial.bystanders();
      await trial.retry(await trial.reserved('1'), 0);
      const job = await trial.lease();
      await trial.changes(
        () => trial.bury(job, reason),
        (_outcome, now) => ({
          jobs: {
            't/1': {
              state: 'dead',
              lease: null,
              failures: 2,
              attempts: [attemptOf({ failures: 0 }), attemptOf(job)],
              deadAt: now,
              deadReason: reason,
            },
          },
          alerts: {
            [job.version]: {
              ...{ topic: 't', id: '1', version: job.version, deadAt: now, reason, failures: 2 },
              ...{ attempt: attemptOf(job), state: 'owed' },
            },
          },
        }),
      );
    }),
  ),

  fact('bury: without an attempt adds no failure and names the last one', async (trial) => {
    await trial.bystanders();
    await trial.retry(await trial.reserved('1'), 0);
    const job = await trial.lease();
    const letter = { reason: 'expired', failures: 1 } as const;
    await trial.changes(
      async () => only(await trial.jobs.bury([{ ...leaseOf(job), reason: 'expired', attempt: null }])),
      (_outcome, now) => ({
        jobs: { 't/1': { state: 'dead', lease: null, deadAt: now, deadReason: 'expired' } },
        alerts: {
          [job.version]: {
            ...{ topic: 't', id: '1', version: job.version, deadAt: now, ...letter },
            ...{ attempt: attemptOf({ failures: 0 }), state: 'owed' },
          },
        },
      }),
    );
    const untried = await trial.reserved('2');
    await trial.jobs.bury([{ ...leaseOf(untried), reason: 'expired', attempt: null }]);
    expect(await trial.known('2')).toMatchObject({ state: 'dead', failures: 0, attempts: [] });
  }),

  fact('release: returns the job to its old place, without attempt or strike', async (trial) => {
    await trial.bystanders();
    await trial.push('1');
    await trial.tick();
    await trial.push('2');
    const job = await trial.lease();
    expect(job.id).toBe('1');
    await trial.changes(
      () => trial.release(job),
      () => ({ jobs: { 't/1': { state: 'ready', lease: null } } }),
    );
    expect(idsOf(await trial.reserve(request(5, { t: 5 })))).toEqual(['1', '2']);
  }),

  fact('finish: returns an outcome per item; a lost lease affects no neighbour', async (trial) => {
    await trial.push('1');
    await trial.push('2');
    await trial.push('3');
    const [a, b, c] = await trial.reserve(request(3));
    if (a === undefined || b === undefined || c === undefined) throw new Error('three were ready');
    const attempt = attemptOf(a);
    const wrong = { ...leaseOf(b), token: b.token + 1_000_000 };
    const lost = { kind: 'lease_lost' };
    const leases = [leaseOf(a), wrong, leaseOf(c), leaseOf(a)];
    expect(await trial.jobs.release(leases)).toEqual([
      { kind: 'released' },
      lost,
      { kind: 'released' },
      lost,
    ]);
    const [d, e] = await trial.reserve(request(2));
    if (d === undefined || e === undefined) throw new Error('two were ready');
    const retries = [wrong, leaseOf(d)].map((lease) => ({ ...lease, delayMs: farOffMs, attempt }));
    expect(await trial.jobs.retry(retries)).toEqual([lost, { kind: 'retried' }]);
    const buries = [leaseOf(e), wrong].map((lease) => ({ ...lease, reason: 'gone' as const, attempt }));
    expect(await trial.jobs.bury(buries)).toEqual([{ kind: 'buried' }, lost]);
    const acks = [wrong, leaseOf(b), leaseOf(b)].map((lease) => ({ ...lease, attempt }));
    expect(await trial.jobs.ack(acks)).toEqual([lost, { kind: 'acked' }, lost]);
    expect((await trial.dump()).jobs.map((job) => job.state)).toEqual(['delayed', 'dead']);
  }),
];
