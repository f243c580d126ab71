// cancel in every state; promote in time, in order, never early.

import { expect } from 'vitest';
import { jobStates } from '../../../src/core/job.ts';
import { type Case, fact, farOffMs, idsOf, request, waitOf } from '../trial.ts';

export const cancelCases: readonly Case[] = [
  ...jobStates.map((state) =>
    fact(`cancel: removes a ${state} job`, async (trial) => {
      await trial.bystanders();
      const lease = await trial.seed(state);
      await trial.changes(
        () => trial.cancel({ topic: 't', id: '1' }),
        (outcome) => {
          expect(outcome).toEqual({ kind: 'cancelled', inFlight: state === 'reserved' });
          return { jobs: { 't/1': null } };
        },
      );
      if (lease !== null) await trial.lost(lease);
      expect(await trial.reserve(request(10, { t: 10 }))).toEqual([]);
    }),
  ),

  fact('cancel: returns absent for an unknown job and changes nothing', async (trial) => {
    await trial.bystanders();
    const outcome = await trial.unchanged(() => trial.cancel({ topic: 't', id: '1' }));
    expect(outcome).toEqual({ kind: 'absent' });
  }),

  fact('cancel: returns an outcome per item', async (trial) => {
    await trial.push('1');
    await trial.push('2');
    const keys = ['1', 'none', '2', '1'].map((id) => ({ topic: 't', id }));
    expect(await trial.jobs.cancel(keys)).toEqual([
      { kind: 'cancelled', inFlight: false },
      { kind: 'absent' },
      { kind: 'cancelled', inFlight: false },
      { kind: 'absent' },
    ]);
  }),
];

export const promoteCases: readonly Case[] = [
  fact('promote: moves only due jobs', async (trial) => {
    await trial.bystanders();
    await trial.push('soon', { when: { delayMs: 30 }, priority: 'high' });
    await trial.push('later', { when: { delayMs: farOffMs } });
    const { dueAt } = await trial.known('soon');
    await trial.reach(dueAt);
    await trial.changes(
      () => trial.promote(),
      (promoted) => {
        expect(promoted.moved).toBe(1);
        return { jobs: { 't/soon': { state: 'ready' } } };
      },
    );
  }),

  fact('promote: moves no job before it is due', async (trial) => {
    await trial.push('far', { when: { delayMs: farOffMs } });
    const near = await Promise.all(
      [200, 400, 600, 800, 1_000].map((delayMs) => trial.push(`in ${delayMs}`, { when: { delayMs } })),
    );
    for (const { dueAt } of near) {
      const early = await trial.justBefore(dueAt, () => trial.unchanged(() => trial.promote()));
      expect(early).toEqual({ moved: 0, waitMs: waitOf(1) });
      expect(await trial.promote()).toMatchObject({ moved: 1 });
    }
    expect(await trial.known('far')).toMatchObject({ state: 'delayed' });
  }),

  fact('promote: returns the time until the next job is due', async (trial) => {
    expect(await trial.promote()).toEqual({ moved: 0, waitMs: null });
    await trial.push('ready');
    expect(await trial.promote()).toEqual({ moved: 0, waitMs: null });
    const first = await trial.push('1', { when: { delayMs: 2 * farOffMs } });
    expect(await trial.promote()).toEqual({ moved: 0, waitMs: waitOf(first.dueAt - trial.now) });
    const second = await trial.push('2', { when: { delayMs: farOffMs } });
    expect(await trial.promote()).toEqual({ moved: 0, waitMs: waitOf(second.dueAt - trial.now) });
    await trial.clock.skip(60_000);
    expect(await trial.promote()).toEqual({ moved: 0, waitMs: waitOf(second.dueAt - trial.now) });
  }),

  fact('promote: moves the earliest first, equal ones by version; 0 = more are due', async (trial) => {
    const pushed = { c: 2, b1: 1, a: 0, b2: 1 };
    await trial.pushDue(Object.entries(pushed).map(([id, dueMs]) => ({ id, dueMs })));
    const order: string[] = [];
    for (const waitMs of [0, 0, 0, null]) {
      expect(await trial.promote(1)).toEqual({ moved: 1, waitMs });
      order.push(...idsOf(await trial.reserve(request(10))));
    }
    expect(order).toEqual(['a', 'b1', 'b2', 'c']);
    expect(await trial.promote(1)).toEqual({ moved: 0, waitMs: null });
  }),

  fact('promote: orders several topics by due time, turns by their first jobs', async (trial) => {
    // By time: many of one topic first, then alternating, then some of one topic between two of another.
    const topics = [...'ddddddddd', ...'abcabcbacd', ...'eabceeeabce', ...'fgggf'];
    const pushed = topics.map((topic, n) => ({ id: `${n}`, topic, dueMs: n }));
    await trial.pushDue(pushed.toReversed());
    for (const max of [4, 1, 9, 7, 9, 4, 2]) {
      expect((await trial.promote(max)).moved).toBe(Math.min(max, pushed.length));
      const moved = pushed.splice(0, max);
      const first = [...new Set(moved.map(({ topic }) => topic))];
      const reserved = await trial.reserve(request(250));
      expect(idsOf(reserved).toSorted()).toEqual(moved.map(({ id }) => id).toSorted());
      expect(reserved.slice(0, first.length).map(({ topic }) => topic)).toEqual(first);
    }
    expect(pushed).toEqual([]);
  }),

  fact('promote: never moves a cancelled or replaced job', async (trial) => {
    await trial.push('1', { when: { delayMs: 20 } });
    const { dueAt } = await trial.push('2', { when: { delayMs: 20 } });
    await trial.cancel({ topic: 't', id: '1' });
    await trial.push('2', { when: { delayMs: farOffMs } });
    await trial.reach(dueAt);
    expect(await trial.unchanged(() => trial.promote())).toMatchObject({ moved: 0 });
  }),
];
