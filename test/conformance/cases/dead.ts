// Dead letters: list, requeue and purge, with filters, bounds and alerts that stay owed.

import { expect } from 'vitest';
import { extensionOf } from '../../../src/core/extension.ts';
import { limits } from '../../../src/core/limits.ts';
import type { DeadFilter, DeadLetter, Page } from '../../../src/ports/job-store.ts';
import { redisLimits } from '../../../src/store/redis/limits.ts';
import {
  attemptOf,
  type Case,
  fact,
  idsOf,
  jobOf,
  leaseOf,
  only,
  request,
  type Trial,
  within,
} from '../trial.ts';

/** Buries `a/1`, `b/1`, `a/2`, `b/2`, each in its own millisecond. Returns them in that order. */
async function four(trial: Trial): Promise<readonly DeadLetter[]> {
  for (const [topic, id] of [
    ['a', '1'],
    ['b', '1'],
    ['a', '2'],
    ['b', '2'],
  ] as const) {
    await trial.buried(id, { topic });
    await trial.tick();
  }
  const list = (await trial.dead.list({}, 10, null)).items;
  return [...list].reverse();
}
const names = (jobs: readonly { topic: string; id: string }[]) =>
  jobs.map(({ topic, id }) => `${topic}/${id}`);

async function listed(trial: Trial, filter: DeadFilter): Promise<string[]> {
  const page = await trial.dead.list(filter, 10, null);
  expect(page.nextCursor).toBeNull();
  return names(page.items);
}

/** All pages of one. */
async function allListed(trial: Trial, filter: DeadFilter): Promise<string[]> {
  const all: string[] = [];
  let cursor: string | null = null;
  do {
    const page: Page<DeadLetter> = await trial.dead.list(filter, 1, cursor);
    all.push(...names(page.items));
    cursor = page.nextCursor;
  } while (cursor !== null);
  return all;
}

/** 1 and 2 die before the moment. 3, which was reserved, and 4, which was ready, die after it. */
async function deathsAround(trial: Trial) {
  await trial.buried('1');
  await trial.tick();
  await trial.buried('2');
  const third = await trial.reserved('3');
  await trial.push('4');
  const before = await trial.admin.moment();
  await trial.tick();
  await trial.bury(third);
  await trial.tick();
  await trial.bury(await trial.lease());
  return { before, all: ['1', '2', '3', '4'] };
}

/** More than one step of any store. */
const manyIds = Array.from({ length: 3 * redisLimits.stepMax }, (_, n) => `j${n}`);

/** Reserves and buries all ready jobs of the topic `t`. Returns their number. */
async function buryReady(trial: Trial): Promise<number> {
  const reserved = await trial.reserve(request(limits.reserveMax, { t: limits.reserveMax }));
  const jobs = reserved.map((job) => ({ ...leaseOf(job), reason: 'gone', attempt: attemptOf(job) }) as const);
  if (jobs.length > 0) await trial.jobs.bury(jobs);
  return jobs.length;
}

/** The matches of each filter, newest death first. */
async function filters(trial: Trial): Promise<readonly (readonly [DeadFilter, string[]])[]> {
  const deadAts = (await four(trial)).map((job) => job.deadAt as number) as [number, number, number, number];
  return [
    [{}, ['b/2', 'a/2', 'b/1', 'a/1']],
    [{ topic: 'a' }, ['a/2', 'a/1']],
    [{ topic: 'none' }, []],
    [{ since: deadAts[1] }, ['b/2', 'a/2', 'b/1']],
    [{ until: deadAts[2] }, ['b/1', 'a/1']],
    [{ since: deadAts[1], until: deadAts[3] }, ['a/2', 'b/1']],
    [{ since: deadAts[1] + 1, until: deadAts[2] }, []],
    [{ topic: 'b', since: deadAts[2] }, ['b/2']],
    [{ topic: 'a', ids: ['2', 'none', '1'] }, ['a/2', 'a/1']],
    [{ topic: 'b', ids: ['1'], until: deadAts[1] + 1 }, ['b/1']],
    [{ topic: 'b', ids: ['1'], until: deadAts[1] }, []],
    [{ topic: 'b', ids: [] }, []],
  ];
}

export const deadCases: readonly Case[] = [
  fact('dead list: returns dead letters without their bodies', async (trial) => {
    await trial.bystanders();
    const job = await trial.buried('1', { contentType: null, body: Buffer.from([0, 200]) }, 'gone');
    const page = await trial.dead.list({ topic: 't' }, 10, null);
    expect(page.nextCursor).toBeNull();
    const { priority, lease, body, ...stored } =
      (await trial.dump()).jobs.find((each) => each.topic === 't') ?? {};
    expect(only(page.items)).toEqual(stored);
    expect(stored).toMatchObject({ version: job.version, state: 'dead', deadReason: 'gone', failures: 1 });
  }),

  fact('dead list: filters by topic, time of death and ids, newest death first', async (trial) => {
    for (const [filter, expected] of await filters(trial))
      expect(await listed(trial, filter)).toEqual(expected);
  }),

  fact('dead list: returns only dead jobs', async (trial) => {
    for (const state of ['delayed', 'ready', 'reserved'] as const)
      await trial.seed(state, '1', { topic: state });
    expect(await listed(trial, {})).toEqual([]);
    expect(await listed(trial, { topic: 'ready', ids: ['1'] })).toEqual([]);
  }),

  fact('dead list: pages skip and repeat nothing while others die or go', async (trial) => {
    for (let n = 0; n < 7; n += 1) {
      await trial.buried(`a${n}`, { topic: 'a' });
      await trial.tick();
    }
    const first = await trial.dead.list({ topic: 'a' }, 3, null);
    expect(idsOf(first.items)).toEqual(['a6', 'a5', 'a4']);
    await trial.buried('newer', { topic: 'a' });
    for (const id of ['a4', 'a5']) await trial.cancel({ topic: 'a', id });
    const second = await trial.dead.list({ topic: 'a' }, 3, first.nextCursor);
    expect(idsOf(second.items)).toEqual(['a3', 'a2', 'a1']);
    const third = await trial.dead.list({ topic: 'a' }, 3, second.nextCursor);
    expect(idsOf(third.items)).toEqual(['a0']);
    expect(third.nextCursor).toBeNull();
    const exact = await trial.dead.list({ topic: 'a', ids: ['a0', 'a1', 'a2'] }, 3, null);
    expect([exact.items.length, exact.nextCursor]).toEqual([3, null]);
  }),

  fact('dead list: before a moment, only deaths from before it', async (trial) => {
    const { before, all } = await deathsAround(trial);
    for (const filter of [{}, { topic: 't' }, { topic: 't', ids: all }]) {
      expect(await allListed(trial, { ...filter, before })).toEqual(['t/2', 't/1']);
      expect(await allListed(trial, { ...filter, before: await trial.admin.moment() })).toHaveLength(4);
      expect(await allListed(trial, { ...filter, before: {} })).toEqual([]);
    }
  }),

  ...(['requeue', 'purge'] as const).flatMap((verb) =>
    (['all', 'topic', 'ids'] as const).map((which) =>
      fact(`dead ${verb}: before a moment, only deaths from before it (${which})`, async (trial) => {
        const { before, all } = await deathsAround(trial);
        const filter = { all: {}, topic: { topic: 't' }, ids: { topic: 't', ids: all } }[which];
        const done = verb === 'requeue' ? { requeued: 2, more: false } : { purged: 2, more: false };
        expect(await trial.dead[verb]({ ...filter, before }, 10)).toEqual(done);
        expect(await allListed(trial, {})).toEqual(['t/4', 't/3']);
      }),
    ),
  ),

  fact('dead requeue: makes the job ready with a new version and its origin', async (trial) => {
    await trial.bystanders();
    const job = await trial.buried('1', { priority: 'high' });
    await trial.tick();
    await trial.changes(
      () => trial.dead.requeue({ topic: 't' }, 10),
      (outcome, now) => {
        expect(outcome).toEqual({ requeued: 1, more: false });
        const fresh = { failures: 0, strikes: 0, deadAt: null, deadReason: null };
        return {
          jobs: { 't/1': { ...fresh, state: 'ready', dueAt: now, version: expect.any(Number) } },
        };
      },
    );
    const again = await trial.lease();
    expect(again.version).toBeGreaterThan(job.token);
    expect(again).toMatchObject({
      ...{ origin: job.origin, acceptedAt: job.acceptedAt, failures: 0, body: job.body },
    });
    await trial.lost(job);
    expect(await trial.ack(again)).toEqual({ kind: 'acked' });
  }),

  fact('dead requeue: the number of snoozes begins again, and other options stay', async (trial) => {
    for (const [id, given] of [
      ['1', { maxAttempts: 1 }],
      ['2', {}],
    ] as const) {
      await trial.buried(id, { extension: extensionOf({ ...given, again: 9_999 }) });
      if (id === '1') await trial.dead.requeue({}, 10);
      else await trial.jobs.requeue([{ topic: 't', id }]);
      const { extension, body } = await trial.known(id);
      expect(extension ?? null).toEqual(extensionOf(given));
      expect(body.length).toBeGreaterThan(0);
      expect(await trial.ack(await trial.lease())).toEqual({ kind: 'acked' });
    }
  }),

  fact('dead requeue: the alert stays owed, and the next death owes another', async (trial) => {
    const first = await trial.buried('1');
    await trial.dead.requeue({}, 10);
    expect((await trial.dump()).alerts.map((entry) => [entry.version, entry.state])).toEqual([
      [first.version, 'owed'],
    ]);
    const second = await trial.lease();
    await trial.bury(second, 'gone');
    expect((await trial.dump()).alerts).toMatchObject([
      { version: first.version, state: 'owed', reason: 'attempts_exhausted' },
      { version: second.version, state: 'owed', reason: 'gone', failures: 1, attempt: attemptOf(second) },
    ]);
  }),

  ...(['requeue', 'purge'] as const).flatMap((verb) => {
    const call = async (trial: Trial, filter: DeadFilter, max: number) => {
      if (verb === 'requeue') {
        const { requeued, more } = await trial.dead.requeue(filter, max);
        return { n: requeued, more };
      }
      const { purged, more } = await trial.dead.purge(filter, max);
      return { n: purged, more };
    };
    const left = async (trial: Trial) => listed(trial, {});
    return [
      fact(`dead ${verb}: affects the jobs that list returns for the filter`, async (trial) => {
        const rounds = (await filters(trial)).length;
        for (let round = 0; round < rounds; round += 1) {
          for (const topic of ['a', 'b']) await trial.admin.purgeTopic(topic, 10);
          const [filter, expected] = (await filters(trial))[round] as readonly [DeadFilter, string[]];
          const all = await left(trial);
          expect(await call(trial, filter, 10)).toEqual({ n: expected.length, more: false });
          expect(await left(trial)).toEqual(all.filter((name) => !expected.includes(name)));
        }
      }),

      fact(`dead ${verb}: oldest death first, at most max; returns whether more are left`, async (trial) => {
        await four(trial);
        expect(await call(trial, {}, 1)).toEqual({ n: 1, more: true });
        expect(await left(trial)).toEqual(['b/2', 'a/2', 'b/1']);
        expect(await call(trial, { topic: 'b' }, 1)).toEqual({ n: 1, more: true });
        expect(await left(trial)).toEqual(['b/2', 'a/2']);
        expect(await call(trial, {}, 2)).toEqual({ n: 2, more: false });
        expect(await call(trial, {}, 2)).toEqual({ n: 0, more: false });
      }),

      ...([{ topic: 't' }, { topic: 't', ids: [...manyIds, ...manyIds] }] as const).map((filter) =>
        fact(
          `dead ${verb}: by ${'ids' in filter ? 'ids' : 'a topic'}, leaves out jobs made during the call`,
          async (trial) => {
            await trial.jobs.push(manyIds.map((id) => jobOf(id)));
            for (let dead = 0; dead < manyIds.length; ) dead += await buryReady(trial);
            let isOver = false;
            let fresh = 0;
            const receiver = async () => {
              while (!isOver) {
                await trial.tick();
                fresh += verb === 'purge' ? 1 : 0;
                if (fresh > 0)
                  await trial.jobs.push(manyIds.slice(0, 50).map((id) => jobOf(`${id} ${fresh}`)));
                await buryReady(trial);
              }
            };
            const receiving = receiver();
            const outcome = await call(trial, filter, limits.bulkMax).finally(() => {
              isOver = true;
            });
            await receiving;
            // The first push of the receiver may come before the first step.
            const most = manyIds.length + (verb === 'purge' && !('ids' in filter) ? 50 : 0);
            expect(outcome).toEqual({ n: within(manyIds.length, most), more: false });
          },
        ),
      ),

      fact(`dead ${verb}: affects only dead jobs`, async (trial) => {
        for (const state of ['delayed', 'ready', 'reserved'] as const)
          await trial.seed(state, '1', { topic: state });
        expect(await trial.unchanged(() => call(trial, {}, 10))).toEqual({ n: 0, more: false });
        const named = { topic: 'reserved', ids: ['1'] };
        expect(await trial.unchanged(() => call(trial, named, 10))).toEqual({ n: 0, more: false });
      }),
    ];
  }),

  fact('dead purge: removes the dead letter; its alert stays owed', async (trial) => {
    await trial.bystanders();
    await trial.buried('1');
    await trial.changes(
      () => trial.dead.purge({ topic: 't' }, 10),
      (outcome) => {
        expect(outcome).toEqual({ purged: 1, more: false });
        return { jobs: { 't/1': null } };
      },
    );
  }),
];
