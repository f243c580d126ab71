// Tests what the timer asks of its store. That jobs become ready in time and never early, also without hints
// and after failures of the store, is a rule of the simulated worlds.
import { describe, expect, it } from 'vitest';
import type { Hint } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { createTimer } from '../../src/timer/timer.ts';
import { until } from '../support/until.ts';
import { between, ids, startRig } from './rig.ts';

/** Runs pending microtasks only. A woken loop takes its step in them. No timer and no beat of the process
 *  runs. */
async function settled(): Promise<void> {
  for (let n = 0; n < 100; n += 1) await Promise.resolve();
}

describe('timer', () => {
  it('a backlog larger than one step is promoted without a pause', async () => {
    const rig = await startRig();
    await rig.pushAll('t', ids('j', 1_200), { when: { delayMs: 50 } });
    const moved: number[] = [];
    const store = between(rig, {
      async promote(partition, max) {
        const promoted = await rig.store.jobs.promote(partition, max);
        if (promoted.moved > 0) moved.push(promoted.moved);
        return promoted;
      },
    });
    await until(
      'they are due',
      async () => (await rig.store.jobs.get({ topic: 't', id: 'j1199' }))?.dueAt !== undefined,
    );
    await rig.run(createTimer(rig.context({ store, config: { pollCeiling: 60_000 } })));
    // Three steps; a pause between them would last twice the poll ceiling.
    await until('all are ready', async () => (await rig.store.admin.counts()).topics['t']?.ready === 1_200);
    expect(Math.max(...moved)).toBeLessThanOrEqual(500);
  });

  it('wakes only for a hint with an earlier time', async () => {
    const rig = await startRig();
    let asked = 0;
    let answered = 0;
    let hint: (hint: Hint) => void = () => {};
    const store = between(rig, {
      async promote(partition, max) {
        asked += 1;
        const promoted = await rig.store.jobs.promote(partition, max);
        answered += 1;
        return promoted;
      },
      onHint(listener) {
        hint = listener;
        return () => {};
      },
    });
    await rig.push('t', 'a', { when: { delayMs: 60_000 } });
    await rig.run(createTimer(rig.context({ store, config: { pollCeiling: 600_000 } })));
    await until('it has an answer', () => answered > 0 && answered === asked);
    await settled();
    // It sleeps until the next beat of the process, which comes in a turn of its own.
    const before = asked;
    hint({ kind: 'due', partition: 0, waitMs: 120_000 });
    hint({ kind: 'due', partition: 1, waitMs: 0 });
    hint({ kind: 'ready', partition: 0 });
    await settled();
    expect(asked).toBe(before);
    hint({ kind: 'due', partition: 0, waitMs: 20_000 });
    await settled();
    expect(asked).toBe(before + 1);
  });

  it('a partition removed during a call is left without an error', async () => {
    const rig = await startRig();
    let partitions = [0, 1];
    let isRemoved = false;
    const asked: number[] = [];
    const store = between(rig, {
      partitions: () => partitions,
      async promote(partition) {
        asked.push(partition);
        if (isRemoved && partition === 1) partitions = [0];
        if (partitions.includes(partition)) return { moved: 0, waitMs: null };
        throw new StoreError({ kind: 'not_stored', code: 'no_such_shard' });
      },
    });
    await rig.run(createTimer(rig.context({ store })));
    await until('both are asked', () => new Set(asked).size === 2);
    // By its next call: before it, the timer might notice the removal first, and never call again.
    isRemoved = true;
    await until('the call to the gone one', () => !partitions.includes(1));
    const from = asked.length;
    await until('the other one still is', () => asked.slice(from).filter((each) => each === 0).length > 3);
    expect(rig.lines.filter(({ kind }) => kind === 'error')).toEqual([]);
  });

  it('partitions are assigned by index; extra timers stand by', async () => {
    const rig = await startRig();
    async function partitionsOf(index: number, count: number, partitions: readonly number[]) {
      const asked = new Set<number>();
      const store = between(rig, {
        partitions: () => partitions,
        async promote(partition) {
          asked.add(partition);
          return { moved: 0, waitMs: null };
        },
      });
      const timer = createTimer(rig.context({ store, index, count }));
      await timer.start();
      await until('it has asked', () => asked.size > 0);
      await timer.drain(1_000);
      return [...asked].sort();
    }
    expect(await partitionsOf(0, 2, [0, 1, 2])).toEqual([0, 2]);
    expect(await partitionsOf(1, 2, [0, 1, 2])).toEqual([1]);
    expect(await partitionsOf(0, 2, [0])).toEqual([0]);
    expect(await partitionsOf(1, 2, [0])).toEqual([0]);
    expect(await partitionsOf(4, 5, [0, 1, 2])).toEqual([1]);
  });
});
