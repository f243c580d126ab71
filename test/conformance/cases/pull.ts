// Leases of pulled jobs: they belong to no process, can be extended, and end as a failed attempt. Also what a
// push may bring along: a lease of the job's own, and the past of an imported job.

import { expect } from 'vitest';
import { extensionOf } from '../../../src/core/extension.ts';
import { pullOwner, type ReservedJob } from '../../../src/core/job.ts';
import { limits } from '../../../src/core/limits.ts';
import type { ExtendOutcome } from '../../../src/ports/job-store.ts';
import {
  attemptOf,
  type Case,
  examined,
  fact,
  farOffMs,
  idsOf,
  jobOf,
  leaseOf,
  longLeaseMs,
  only,
  owner,
  type Pushed,
  request,
  type Trial,
} from '../trial.ts';

const none = { returned: 0, poisoned: [], more: false };
const lost = { kind: 'lease_lost' };
const ownLeaseMs = 5_000;
const extension = extensionOf({ leaseMs: ownLeaseMs });

const pulled = (trial: Trial, id: string, leaseMs = longLeaseMs, pushed: Pushed = {}): Promise<ReservedJob> =>
  trial.reserved(id, pushed, pullOwner, leaseMs);

const extend = async (trial: Trial, job: ReservedJob, leaseMs: number): Promise<ExtendOutcome> =>
  only(await trial.jobs.extend([{ ...leaseOf(job), leaseMs }]));

async function endOf(trial: Trial, id: string, topic = 't'): Promise<number> {
  const job = (await trial.dump()).jobs.find((one) => one.topic === topic && one.id === id);
  return job?.lease?.untilMs ?? Number.NaN;
}

/** The case, with another bound of the leases of pullOwner. */
function withLeasesMax(pullLeasesMax: number, { title, run }: Case): Case {
  const setMax = (max: number) => Object.assign(limits, { pullLeasesMax: max });
  return {
    title,
    async run(openStore) {
      const usual = limits.pullLeasesMax;
      setMax(pullLeasesMax);
      try {
        await run(openStore);
      } finally {
        setMax(usual);
      }
    },
  };
}

/** Pulls one job of each topic at most; returns what it got. */
async function pullOf(trial: Trial, topics: readonly string[] | null, max = 1): Promise<unknown> {
  const rooms = topics && Object.fromEntries(topics.map((topic) => [topic, 1]));
  const { jobs, more, atLeaseLimit } = await trial.jobs.reserve(
    trial.partition,
    request(max, rooms, pullOwner),
  );
  return { jobs: jobs.map(({ topic }) => topic), more, ...(atLeaseLimit && { atLeaseLimit }) };
}

/** A pulled job whose lease has expired, and is listed by recover. */
async function expired(trial: Trial, id: string, pushed: Pushed = {}): Promise<ReservedJob> {
  const job = await pulled(trial, id, 30, pushed);
  await trial.reach(await endOf(trial, id, pushed.topic));
  return job;
}

export const pullCases: readonly Case[] = [
  fact('pull: reserves for the requested time', async (trial) => {
    await trial.bystanders();
    await trial.push('1');
    await trial.changes(
      () => trial.lease('t', pullOwner, 40_000),
      (job, now) => {
        expect(job).toMatchObject({ id: '1', leaseMs: 40_000, failures: 0, strikes: 0 });
        const lease = { token: job.token, owner: pullOwner, untilMs: now + 40_000 };
        return { jobs: { 't/1': { state: 'reserved', lease } } };
      },
    );
  }),

  withLeasesMax(
    6,
    fact('pull: a topic gets jobs while it has fewer leases than are left', async (trial) => {
      for (const id of ['1', '2', '3', '4', '5']) {
        await trial.push(id, { topic: 'hog' });
        await trial.push(id, { topic: 'other' });
      }
      const hog = { jobs: ['hog'], more: false };
      const other = { jobs: ['other'], more: false };
      const full = (...atLeaseLimit: string[]) => ({ jobs: [], more: false, atLeaseLimit });
      for (let n = 0; n < 3; n += 1) expect(await pullOf(trial, ['hog'])).toEqual(hog);
      expect(await trial.unchanged(() => pullOf(trial, ['hog']))).toEqual(full('hog'));
      // It does not stop other topics.
      expect(await pullOf(trial, ['hog', 'other'], 2)).toEqual(other);
      expect(await pullOf(trial, null)).toEqual({ jobs: ['other'], more: true });
      expect(await pullOf(trial, ['other'])).toEqual(full('other'));
      expect(await pullOf(trial, ['hog', 'unknown'])).toEqual(full('hog'));
      // Notifiers have their own bounds.
      expect(await trial.reserve(request(1, { hog: 1 }))).toHaveLength(1);
      expect(await trial.admin.purgeTopic('other', 10)).toMatchObject({ purged: 5 });
      expect(await pullOf(trial, ['hog'])).toEqual(full('hog'));
      expect(await trial.admin.purgeTopic('hog', 10)).toMatchObject({ purged: 5 });
      await trial.push('6', { topic: 'hog' });
      expect(await pullOf(trial, ['hog'])).toEqual(hog);
    }),
  ),

  fact("pull: a job's own lease replaces the requested one", async (trial) => {
    await trial.push('1', { extension });
    expect(await trial.known('1')).toMatchObject({ extension });
    const job = await trial.lease('t', pullOwner, 40_000);
    expect(job.leaseMs).toBe(ownLeaseMs);
    expect(await endOf(trial, '1')).toBe(trial.now + ownLeaseMs);
  }),

  fact("pull: a notifier never gets a job's own lease", async (trial) => {
    await trial.push('1', { extension });
    const job = await trial.lease('t', owner, 40_000);
    expect(job.leaseMs).toBe(40_000);
    expect(await endOf(trial, '1')).toBe(trial.now + 40_000);
  }),

  fact("pull: retries, releases and new versions keep a job's own lease", async (trial) => {
    await trial.push('1', {
      extension,
      contentType: 'application/x-unusual',
      body: Buffer.alloc(2_000, 7),
    });
    const leased = async () => {
      const job = await trial.lease('t', pullOwner);
      expect(job).toMatchObject({ leaseMs: ownLeaseMs, extension, contentType: 'application/x-unusual' });
      expect(job.body).toEqual(Buffer.alloc(2_000, 7));
      return job;
    };
    await trial.release(await leased());
    await trial.retry(await leased(), 0);
    await trial.retry(await leased(), farOffMs);
    await trial.jobs.run([{ topic: 't', id: '1' }]);
    await trial.release(await leased());
    await trial.jobs.reschedule([{ topic: 't', id: '1', when: { delayMs: 0 } }]);
    await trial.bury(await leased());
    await trial.jobs.requeue([{ topic: 't', id: '1' }]);
    await leased();
    expect(await trial.known('1')).toMatchObject({ extension });
  }),

  fact('pull: the next job of an id has no lease of its own', async (trial) => {
    await trial.push('1', { extension });
    await trial.push('1');
    expect(await trial.known('1')).not.toHaveProperty('extension');
    expect(await trial.lease('t', pullOwner)).toMatchObject({ leaseMs: longLeaseMs });
  }),

  fact('pull: recoverOwners and releaseUnheld leave pulled jobs alone', async (trial) => {
    await pulled(trial, '1');
    const { partition, jobs } = trial;
    const alone = [
      () => jobs.recoverOwners(partition, pullOwner.instance, { living: [] }, 10),
      () => jobs.recoverOwners(partition, pullOwner.instance, { dead: pullOwner.incarnation }, 10),
      () => jobs.recoverOwners(partition, owner.instance, { living: [] }, 10),
    ];
    for (const call of alone) expect(await trial.unchanged(call)).toEqual(none);
    const release = () => jobs.releaseUnheld(partition, pullOwner, [], Number.MAX_SAFE_INTEGER);
    expect(await trial.unchanged(release)).toMatchObject({ released: 0, left: 0 });
  }),

  fact('pull: recover lists an expired lease and changes nothing', async (trial) => {
    await trial.bystanders();
    const job = await expired(trial, '1');
    const listed = {
      lease: leaseOf(job),
      failures: 0,
      leaseMs: 30,
      until: await endOf(trial, '1'),
      dueAt: job.dueAt,
      options: {},
    };
    for (let n = 0; n < 2; n += 1)
      expect(await trial.unchanged(() => trial.recover())).toEqual({ ...none, pulled: [listed] });
  }),

  fact("pull: recover lists a job's own options", async (trial) => {
    const own = { maxAttempts: 7, deadline: 1_900_000_000_000 };
    await expired(trial, '1', { extension: extensionOf(own) });
    const [lease] = (await trial.recover()).pulled ?? [];
    expect(lease?.options).toEqual(own);
  }),

  fact('pull: recover lists no lease before it expires', async (trial) => {
    await pulled(trial, '1');
    expect(await trial.unchanged(() => trial.recover())).toEqual(none);
    const ends = await endOf(trial, '1');
    const recover = () => trial.unchanged(() => trial.recover());
    expect(await trial.justBefore(ends, recover)).toEqual(none);
    expect((await recover()).pulled).toHaveLength(1);
  }),

  fact('pull: an expired lease is a failed attempt without a strike', async (trial) => {
    await trial.bystanders();
    const job = await expired(trial, '1');
    const [lease] = (await trial.recover()).pulled ?? [];
    expect(lease?.lease).toEqual(leaseOf(job));
    const attempt = attemptOf(job, { reason: 'lease_expired', status: null });
    await trial.changes(
      () => trial.retry(job, 0, attempt),
      (outcome, now) => {
        expect(outcome).toEqual({ kind: 'retried' });
        const again = { state: 'ready', lease: null, dueAt: now, failures: 1, strikes: 0 };
        return { jobs: { 't/1': { ...again, attempts: [attempt] } } };
      },
    );
    expect(await trial.recover()).toEqual(none);
  }),

  fact('pull: of two callers of recover, one settles the expired lease', async (trial) => {
    const job = await expired(trial, '1');
    const both = await Promise.all([trial.recover(), trial.recover()]);
    expect(both.map(({ pulled: leases = [] }) => leases.map(({ lease }) => lease))).toEqual([
      ...[[leaseOf(job)], [leaseOf(job)]],
    ]);
    expect(await trial.retry(job, 0)).toEqual({ kind: 'retried' });
    await trial.lost(job);
    expect(await trial.known('1')).toMatchObject({ state: 'ready', failures: 1 });
  }),

  fact('pull: an expired lease finishes its job until it is settled', async (trial) => {
    const job = await expired(trial, '1');
    expect((await trial.recover()).pulled).toHaveLength(1);
    expect(await trial.ack(job)).toEqual({ kind: 'acked' });
    expect(await trial.recover()).toEqual(none);
    expect(await trial.jobs.get(job)).toBeNull();
  }),

  fact('pull: a lease that was extended does not end as expired', async (trial) => {
    const job = await expired(trial, '1');
    expect((await trial.recover()).pulled).toHaveLength(1);
    expect(await extend(trial, job, 60_000)).toMatchObject({ kind: 'extended' });
    const ending = { ...leaseOf(job), attempt: attemptOf(job), ifExpired: true };
    for (const end of [
      () => trial.jobs.retry([{ ...ending, delayMs: 0 }]),
      () => trial.jobs.bury([{ ...ending, reason: 'attempts_exhausted' as const }]),
      () => trial.jobs.release([ending]),
    ])
      expect(await trial.unchanged<readonly object[]>(end)).toEqual([lost]);
    // The client's own finishing writes are not concerned.
    expect(await trial.retry(job, 0)).toEqual({ kind: 'retried' });
  }),

  fact('pull: each end of an expired lease is possible until it is extended', async (trial) => {
    const jobs = [];
    for (const id of ['a', 'b', 'c']) jobs.push(await expired(trial, id, { topic: id }));
    const [a, b, c] = jobs.map((job) => ({ ...leaseOf(job), attempt: attemptOf(job), ifExpired: true }));
    if (a === undefined || b === undefined || c === undefined) throw new Error('three were pulled');
    expect(await trial.jobs.retry([{ ...a, delayMs: 0 }])).toEqual([{ kind: 'retried' }]);
    expect(await trial.jobs.bury([{ ...b, reason: 'attempts_exhausted' }])).toEqual([{ kind: 'buried' }]);
    expect(await trial.jobs.release([c])).toEqual([{ kind: 'released' }]);
  }),

  fact('pull: recover lists the earliest ends first, at most max', async (trial) => {
    for (const [id, leaseMs] of [['b', 300] as const, ['a', 40] as const, ['c', 400] as const])
      await pulled(trial, id, leaseMs, { topic: id });
    await pulled(trial, 'later', longLeaseMs, { topic: 'later' });
    await trial.reach(await endOf(trial, 'c', 'c'));
    const { pulled: listed = [], ...rest } = await trial.recover(2);
    expect(listed.map(({ lease }) => lease.id)).toEqual(['a', 'b']);
    expect(rest).toEqual({ ...none, more: true });
    expect((await trial.recover(3)).more).toBe(false);
  }),

  fact('pull: expired pulled jobs do not keep back those of notifiers', async (trial) => {
    await expired(trial, '1', { topic: 'a' });
    await expired(trial, '2', { topic: 'b' });
    await trial.reserved('3', { topic: 'c' }, owner, 30);
    await trial.reach(await endOf(trial, '3', 'c'));
    expect(await trial.recover(1)).toMatchObject({ returned: 1, poisoned: [], more: true });
    expect(await trial.known('3', 'c')).toMatchObject({ state: 'ready', strikes: 1 });
  }),

  fact('pull: counts, searches, purges and examines pulled jobs', async (trial) => {
    const jobs = await Promise.all(
      ['1', '2', '3', '4'].map((id) => pulled(trial, id, longLeaseMs, { topic: id })),
    );
    await trial.reserved('5', { topic: '5' });
    const one = { delayed: 0, ready: 0, reserved: 1, dead: 0 };
    expect((await trial.admin.counts()).topics).toEqual({ '1': one, '2': one, '3': one, '4': one, '5': one });
    const found = await trial.jobs.search({ state: 'reserved' }, 10, null);
    expect(idsOf(found.items).sort()).toEqual(['1', '2', '3', '4', '5']);
    expect(await examined(trial)).toMatchObject({ jobs: 5, problems: [] });
    expect(await trial.admin.purgeTopic('1', 10)).toEqual({ purged: 1, more: false });
    expect(await trial.cancel({ topic: '2', id: '2' })).toEqual({ kind: 'cancelled', inFlight: true });
    expect(await trial.tryPush('3', { topic: '3' })).toMatchObject({ replaced: true, inFlight: true });
    for (const job of jobs.slice(0, 3)) await trial.lost(job);
    expect(await trial.bury(jobs[3] as ReservedJob)).toEqual({ kind: 'buried' });
    expect(await examined(trial)).toMatchObject({ jobs: 3, problems: [] });
  }),

  fact('extend: moves the end of a lease; its token stays', async (trial) => {
    await trial.bystanders();
    const job = await pulled(trial, '1', 30);
    for (const leaseMs of [600_000, 20_000])
      await trial.changes(
        () => extend(trial, job, leaseMs),
        (outcome, now) => {
          const untilMs = now + leaseMs;
          expect(outcome).toEqual({ kind: 'extended', until: untilMs });
          return { jobs: { 't/1': { lease: { token: job.token, owner: pullOwner, untilMs } } } };
        },
      );
    await trial.clock.skip(30);
    expect(await trial.recover()).toEqual(none);
    expect(await trial.ack(job)).toEqual({ kind: 'acked' });
  }),

  fact('extend: a shorter lease expires earlier', async (trial) => {
    const job = await pulled(trial, '1');
    expect(await extend(trial, job, 20)).toMatchObject({ kind: 'extended' });
    expect(await trial.justBefore(trial.now + 20, () => trial.recover())).toEqual(none);
    expect((await trial.recover()).pulled).toMatchObject([{ lease: leaseOf(job) }]);
  }),

  fact('extend: an expired lease goes on until it is settled', async (trial) => {
    const job = await expired(trial, '1');
    expect(await extend(trial, job, 60_000)).toMatchObject({ kind: 'extended' });
    expect(await trial.recover()).toEqual(none);
  }),

  fact('extend: rejects another token and another version', async (trial) => {
    await trial.bystanders();
    const job = await pulled(trial, '1');
    for (const wrong of [
      { token: job.token + 1 },
      { token: job.version },
      { version: job.version - 1 },
      { version: job.token },
      { id: '2' },
      { topic: 'by.ready' },
      { topic: 'by.reserved' },
      { topic: 'none' },
    ])
      expect(await trial.unchanged(() => extend(trial, { ...job, ...wrong }, 1_000))).toEqual(lost);
    expect(await extend(trial, job, 1_000)).toMatchObject({ kind: 'extended' });
  }),

  fact('extend: rejects a lease that was settled or taken over', async (trial) => {
    const first = await expired(trial, '1');
    await trial.retry(first, 0);
    expect(await trial.unchanged(() => extend(trial, first, 1_000))).toEqual(lost);
    const second = await trial.lease('t', pullOwner);
    expect(await trial.unchanged(() => extend(trial, first, 1_000))).toEqual(lost);
    expect(await extend(trial, second, 1_000)).toMatchObject({ kind: 'extended' });
    await trial.ack(second);
    expect(await trial.unchanged(() => extend(trial, second, 1_000))).toEqual(lost);
  }),

  fact('extend: rejects the lease of a notifier', async (trial) => {
    const job = await trial.reserved('1');
    expect(await trial.unchanged(() => extend(trial, job, 600_000))).toEqual(lost);
  }),

  fact('extend: returns an outcome per item', async (trial) => {
    const a = await pulled(trial, 'a', longLeaseMs, { topic: 'a' });
    const b = await pulled(trial, 'b', longLeaseMs, { topic: 'b' });
    const items = [{ ...leaseOf(a), token: 7 }, leaseOf(b), leaseOf(a)];
    const outcomes = await trial.jobs.extend(items.map((lease) => ({ ...lease, leaseMs: 1_000 })));
    expect(outcomes.map(({ kind }) => kind)).toEqual(['lease_lost', 'extended', 'extended']);
  }),

  ...(['delayed', 'ready', 'reserved', 'dead'] as const).map((state) =>
    fact(`cancel as done: ends a ${state} job as delivered`, async (trial) => {
      await trial.bystanders();
      const job = await trial.seed(state);
      const before = await trial.known('1');
      await trial.changes(
        async () => only(await trial.jobs.cancel([{ topic: 't', id: '1' }], 'done')),
        (outcome, now) => {
          expect(outcome).toEqual({ kind: 'cancelled', inFlight: state === 'reserved' });
          const { topic, id, version, origin, dueAt, acceptedAt, failures, attempts } = before;
          const ended = { topic, id, version, origin, dueAt, acceptedAt, failures, attempts };
          return { jobs: { 't/1': null }, ended: { 't/1': { ...ended, state: 'done', endedAt: now } } };
        },
      );
      if (job !== null) await trial.lost(job);
      expect(await trial.jobs.cancel([{ topic: 't', id: '1' }], 'done')).toEqual([{ kind: 'absent' }]);
    }),
  ),

  fact('push: keeps acceptedAt and failures of an imported job', async (trial) => {
    const past = { acceptedAt: 1_700_000_000_123, failures: 3 };
    const pushed = [jobOf('1'), jobOf('2')].map((job) => ({ ...job, ...past, extension }));
    for (const outcome of await trial.jobs.push(pushed)) expect(outcome).toMatchObject({ kind: 'stored' });
    expect(await trial.known('1')).toMatchObject({ ...past, attempts: [], extension });
    expect(only((await trial.jobs.search({ id: '1' }, 10, null)).items)).toMatchObject(past);
    // In the place of a live job, too.
    await trial.jobs.push(pushed);
    const jobs = await trial.reserve(request(2, { t: 2 }, pullOwner));
    expect(jobs).toMatchObject([past, past]);
    await trial.ack(jobs[0] as ReservedJob);
    expect(await trial.history.get({ topic: 't', id: '1' })).toMatchObject({
      ...{ ...past, attempts: [{ attempt: 4, outcome: 'delivered' }] },
    });
    await trial.retry(jobs[1] as ReservedJob, 0);
    expect(await trial.known('2')).toMatchObject({ ...past, failures: 4, attempts: [{ attempt: 4 }] });
  }),

  fact('push: an acceptedAt after now becomes now', async (trial) => {
    await trial.jobs.push([{ ...jobOf('1'), acceptedAt: trial.now + farOffMs }]);
    expect((await trial.known('1')).acceptedAt).toBe(trial.now);
  }),
];
