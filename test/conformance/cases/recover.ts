// Leases that end without an outcome: expired, owner dead, reply lost. Strikes and poison.

import { expect } from 'vitest';
import type { DeadReason, Lease, Owner } from '../../../src/core/job.ts';
import { limits } from '../../../src/core/limits.ts';
import {
  attemptOf,
  type Case,
  fact,
  idsOf,
  jobOf,
  leaseOf,
  longLeaseMs,
  only,
  owner,
  request,
  type Trial,
} from '../trial.ts';

const dead: Owner = { instance: 1, incarnation: 5 };
/** A greatest token above all: whatever is unheld is released. */
const all = Number.MAX_SAFE_INTEGER;
const lostOnce = { state: 'ready', lease: null, strikes: 1 };

/** Lets the lease of the job expire `times` times. */
async function strike(trial: Trial, times: number): Promise<void> {
  for (let n = 0; n < times; n += 1) {
    await trial.lease('t', dead);
    const recovered = await trial.jobs.recoverOwners(trial.partition, 1, { dead: 5 }, 10);
    expect(recovered).toEqual({ returned: 1, poisoned: [], more: false });
  }
}

const buryPoison = async (trial: Trial, job: Lease) =>
  only(await trial.jobs.bury([{ ...leaseOf(job), reason: 'poison', attempt: null }]));

/** One job per topic, so that each owner gets its own. */
async function holders(trial: Trial, owners: Readonly<Record<string, Owner>>): Promise<void> {
  for (const [topic, holder] of Object.entries(owners)) await trial.reserved('1', { topic }, holder);
}

/** A job with a failed attempt, then dead and ready again. */
async function requeued(trial: Trial): Promise<void> {
  await trial.buried('1');
  await trial.dead.requeue({ topic: 't' }, 10);
}

/** Its alert and its group of dead letters have no attempt; the job keeps it. */
async function expectNoLast(trial: Trial, reason: DeadReason): Promise<void> {
  const { version, attempts } = await trial.known('1');
  expect(attempts).toHaveLength(1);
  const { alerts } = await trial.dump();
  expect(alerts.find((alert) => alert.version === version)).toMatchObject({
    reason,
    failures: 0,
    attempt: null,
  });
  const { groups } = await trial.surveys.deadGroups(['t']);
  expect(groups).toMatchObject([{ lastReason: null, status: null, count: 1 }]);
}

export const recoverCases: readonly Case[] = [
  fact('recover: returns an expired lease to its old place, with a strike', async (trial) => {
    await trial.bystanders();
    await trial.reserved('1', {}, owner, 30);
    const ends = (await trial.dump()).jobs.at(-1)?.lease?.untilMs ?? 0;
    await trial.reach(ends);
    await trial.changes(
      () => trial.recover(),
      (recovered) => {
        expect(recovered).toEqual({ returned: 1, poisoned: [], more: false });
        return { jobs: { 't/1': lostOnce } };
      },
    );
    expect(await trial.lease()).toMatchObject({ id: '1', strikes: 1, failures: 0 });
  }),

  fact('recover: takes no lease before it expires', async (trial) => {
    await trial.bystanders();
    await trial.reserved('1', {}, owner, 600_000);
    const none = { returned: 0, poisoned: [], more: false };
    expect(await trial.unchanged(() => trial.recover())).toEqual(none);
    await trial.reserved('2', { topic: 'short' }, owner, 60);
    const recover = () => trial.unchanged(() => trial.recover());
    expect(await trial.justBefore(trial.now + 60, recover)).toEqual(none);
    expect(await trial.recover()).toEqual({ ...none, returned: 1 });
  }),

  fact('recover: takes at most max; returns whether more expired', async (trial) => {
    await trial.jobs.push(['1', '2', '3'].map((id) => jobOf(id)));
    await trial.reserve(request(3, { t: 3 }, owner, 30));
    const ends = Math.max(...(await trial.dump()).jobs.map((job) => job.lease?.untilMs ?? 0));
    await trial.reach(ends);
    expect(await trial.recover(2)).toEqual({ returned: 2, poisoned: [], more: true });
    expect(await trial.recover(2)).toEqual({ returned: 1, poisoned: [], more: false });
    expect(await trial.unchanged(() => trial.recover(2))).toEqual({ returned: 0, poisoned: [], more: false });
  }),

  fact(
    `recover: names the lease of strike ${limits.strikesPoison}, and a bury of it makes the job poison`,
    async (trial) => {
      await trial.bystanders();
      await trial.push('1');
      const failed = await trial.lease();
      await trial.retry(failed, 0);
      await strike(trial, limits.strikesPoison - 1);
      const job = await trial.lease('t', owner, 30);
      expect(job.strikes).toBe(4);
      const ends = (await trial.dump()).jobs.at(-1)?.lease?.untilMs ?? 0;
      await trial.reach(ends);
      const named = { returned: 0, poisoned: [leaseOf(job)], more: false };
      expect(await trial.unchanged(() => trial.recover())).toEqual(named);
      expect(await trial.unchanged(() => trial.recover())).toEqual(named);
      await trial.changes(
        () => buryPoison(trial, job),
        (_outcome, now) => {
          const burial = { deadAt: now, failures: 1 };
          return {
            jobs: { 't/1': { ...burial, state: 'dead', lease: null, strikes: 5, deadReason: 'poison' } },
            alerts: {
              [job.version]: {
                ...burial,
                ...{ topic: 't', id: '1', version: job.version, reason: 'poison' },
                ...{ attempt: attemptOf(failed), state: 'owed' },
              },
            },
          };
        },
      );
      await trial.lost(job);
    },
  ),

  fact('recover: an outcome that comes before the burial of a poison job counts', async (trial) => {
    await trial.push('1');
    await strike(trial, limits.strikesPoison - 1);
    const job = await trial.lease('t', dead);
    expect((await trial.jobs.recoverOwners(trial.partition, 1, { dead: 5 }, 10)).poisoned).toHaveLength(1);
    expect(await trial.ack(job)).toEqual({ kind: 'acked' });
    expect(await trial.unchanged(() => buryPoison(trial, job))).toEqual({ kind: 'lease_lost' });
  }),

  fact('recover: owes an alert without attempt for a job without one', async (trial) => {
    await trial.push('1');
    await strike(trial, limits.strikesPoison - 1);
    const job = await trial.lease('t', dead);
    const recovered = await trial.jobs.recoverOwners(trial.partition, 1, { living: [] }, 10);
    expect(recovered).toEqual({ returned: 0, poisoned: [leaseOf(job)], more: false });
    await buryPoison(trial, job);
    expect(only((await trial.dump()).alerts)).toMatchObject({ reason: 'poison', failures: 0, attempt: null });
  }),

  fact('recover: an attempt before the requeue is not the last one of a poisoned job', async (trial) => {
    await requeued(trial);
    await strike(trial, limits.strikesPoison - 1);
    await buryPoison(trial, await trial.lease('t', dead));
    await expectNoLast(trial, 'poison');
  }),

  fact('bury: an attempt before the requeue is not the last one of a job that expires', async (trial) => {
    await requeued(trial);
    const job = await trial.lease();
    await trial.jobs.bury([{ ...leaseOf(job), reason: 'expired', attempt: null }]);
    await expectNoLast(trial, 'expired');
  }),

  fact('strikes: an outcome clears them', async (trial) => {
    await trial.push('1');
    await strike(trial, 4);
    await trial.retry(await trial.lease(), 0);
    expect(await trial.known('1')).toMatchObject({ strikes: 0, failures: 1 });
    await strike(trial, 4);
    expect(await trial.known('1')).toMatchObject({ strikes: 4, state: 'ready' });
    await trial.bury(await trial.lease());
    expect(await trial.known('1')).toMatchObject({ strikes: 0, state: 'dead' });
  }),

  fact('strikes: release neither adds nor clears any', async (trial) => {
    await trial.push('1');
    await strike(trial, 3);
    for (let n = 0; n < 3; n += 1) await trial.release(await trial.lease());
    expect(await trial.lease()).toMatchObject({ strikes: 3 });
    expect(await trial.jobs.releaseUnheld(trial.partition, owner, [], all)).toMatchObject({ released: 1 });
    expect(await trial.known('1')).toMatchObject({ strikes: 3, state: 'ready' });
  }),

  fact('recoverOwners dead: takes the leases of one incarnation only', async (trial) => {
    await trial.bystanders();
    await holders(trial, {
      gone: dead,
      sibling: { instance: 1, incarnation: 6 },
      elsewhere: { instance: 2, incarnation: 5 },
    });
    await trial.changes(
      () => trial.jobs.recoverOwners(trial.partition, 1, { dead: 5 }, 10),
      (recovered) => {
        expect(recovered).toEqual({ returned: 1, poisoned: [], more: false });
        return { jobs: { 'gone/1': lostOnce } };
      },
    );
  }),

  fact('recoverOwners living: spares incarnations above all named ones', async (trial) => {
    await holders(trial, {
      gone: { instance: 1, incarnation: 5 },
      alive: { instance: 1, incarnation: 6 },
      younger: { instance: 1, incarnation: 7 },
    });
    const living = () => trial.jobs.recoverOwners(trial.partition, 1, { living: [6, 4] }, 10);
    await trial.changes(living, (recovered) => {
      expect(recovered).toEqual({ returned: 1, poisoned: [], more: false });
      return { jobs: { 'gone/1': lostOnce } };
    });
  }),

  fact('recoverOwners living: takes the leases of all other incarnations', async (trial) => {
    await trial.bystanders();
    await holders(trial, {
      gone: dead,
      older: { instance: 1, incarnation: 4 },
      alive: { instance: 1, incarnation: 6 },
      'alive.too': { instance: 1, incarnation: 7 },
      elsewhere: { instance: 2, incarnation: 5 },
    });
    const living = () => trial.jobs.recoverOwners(trial.partition, 1, { living: [6, 7] }, 10);
    await trial.changes(living, (recovered) => {
      expect(recovered).toEqual({ returned: 2, poisoned: [], more: false });
      return { jobs: { 'gone/1': lostOnce, 'older/1': lostOnce } };
    });
    expect(await trial.unchanged(living)).toEqual({ returned: 0, poisoned: [], more: false });
  }),

  fact('recoverOwners: takes at most max; returns whether more are left', async (trial) => {
    await trial.jobs.push(['1', '2', '3'].map((id) => jobOf(id)));
    await trial.reserve(request(3, { t: 3 }, dead));
    const take = () => trial.jobs.recoverOwners(trial.partition, 1, { living: [] }, 2);
    expect(await take()).toEqual({ returned: 2, poisoned: [], more: true });
    expect(await take()).toEqual({ returned: 1, poisoned: [], more: false });
  }),

  fact('recoverOwners: compares all 32 bits of an instance', async (trial) => {
    const highest: Owner = { instance: 0xffff_ffff, incarnation: 2_000_000_000 };
    await trial.reserved('1', {}, highest);
    const other = () => trial.jobs.recoverOwners(trial.partition, 0x7fff_ffff, { living: [] }, 10);
    expect((await trial.unchanged(other)).returned).toBe(0);
    const { instance, incarnation } = highest;
    const recovered = await trial.jobs.recoverOwners(trial.partition, instance, { dead: incarnation }, 10);
    expect(recovered.returned).toBe(1);
  }),

  fact('releaseUnheld: releases unheld leases of the owner without a strike', async (trial) => {
    await trial.bystanders();
    await trial.jobs.push(['1', '2', '3'].map((id) => jobOf(id)));
    const [a, held] = await trial.reserve(request(3, { t: 3 }, dead));
    await holders(trial, {
      sibling: { instance: 1, incarnation: 6 },
      elsewhere: { instance: 2, incarnation: 5 },
    });
    const release = () =>
      trial.jobs.releaseUnheld(trial.partition, dead, [held?.token ?? 0, (a?.token ?? 0) - 1, 12_345], all);
    await trial.changes(release, (found) => {
      expect(found).toMatchObject({ released: 2, left: 0 });
      const back = { state: 'ready', lease: null };
      return { jobs: { 't/1': back, 't/3': back } };
    });
    expect(await trial.unchanged(release)).toMatchObject({ released: 0, left: 0 });
    expect(held === undefined ? null : await trial.ack(held)).toEqual({ kind: 'acked' });
    expect(idsOf(await trial.reserve(request(9, { t: 9 }, dead, longLeaseMs)))).toEqual(['1', '3']);
  }),

  fact('releaseUnheld: releases no lease that was given after the look', async (trial) => {
    const releaseUpTo = (upTo: number) => trial.jobs.releaseUnheld(trial.partition, dead, [], upTo);
    await trial.jobs.push([jobOf('1'), jobOf('2')]);
    await trial.reserve(request(1, { t: 1 }, dead));
    const look = await trial.unchanged(() => releaseUpTo(0));
    expect(look).toMatchObject({ released: 0, left: 1 });
    await trial.reserve(request(1, { t: 1 }, dead));
    expect(await releaseUpTo(look.last)).toMatchObject({ released: 1, left: 1 });
    expect(await trial.known('1')).toMatchObject({ state: 'ready' });
    expect(await trial.known('2')).toMatchObject({ state: 'reserved' });
  }),
];
