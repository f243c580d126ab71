// Tests how many outcome jobs are held at once when one call ends many leases.
import { describe, expect, it } from 'vitest';
import type { JobKey, JobSnapshot } from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import type { AckItem } from '../../src/ports/job-store.ts';
import { endWithOutcomes } from '../../src/use-cases/outcome-jobs.ts';

const none = { onDone: '', onDead: '', delayMs: 0, priority: 'normal' } as const;

/** Acks n leases of a topic; returns the outcome bytes of each write, and the most bodies read at once. */
async function ackOf(n: number, onDone: string, bodyBytesMax = 256 * 1024) {
  const writes: { readonly items: number; readonly bytes: number }[] = [];
  let [reading, readAtOnce] = [0, 0];
  const get = async ({ topic, id }: JobKey): Promise<JobSnapshot> => {
    reading += 1;
    readAtOnce = Math.max(readAtOnce, reading);
    await new Promise(setImmediate);
    reading -= 1;
    const times = { dueAt: 1, acceptedAt: 1, deadAt: null, failures: 0, strikes: 0 };
    const about = { version: 1, origin: 1, state: 'reserved', contentType: null } as const;
    return { topic, id, ...times, ...about, body: Buffer.from('{}'), attempts: [], deadReason: null };
  };
  const topics = new Map([
    ['t', { ...none, onDone }],
    ['done', none],
  ]);
  const items = Array.from({ length: n }, (_, at) => ({
    ...{ topic: 't', id: `j${at}`, version: 1, token: 1, attempt: null },
  }));
  const results = await endWithOutcomes(
    {
      config: { 'limits.bodyBytes': bodyBytesMax },
      topics,
      registry: { get: async () => null, remains: async () => null },
      counters: { add: () => {} },
      store: { jobs: { get } },
      clock: { now: () => 1 },
    },
    items,
    () => ({ reason: null, reply: Buffer.alloc(limits.outcomePartBytesMax, '"') }),
    async (its: readonly (Pick<AckItem, 'outcome'> & { readonly id: string })[]) => {
      const bytes = its.reduce((sum, { outcome }) => sum + (outcome?.job.body.length ?? 0), 0);
      writes.push({ items: its.length, bytes });
      return its.map(({ id }) => ({ kind: id }));
    },
  );
  expect(results).toEqual(items.map(({ id }) => ({ kind: id })));
  return { writes, readAtOnce };
}

describe('endWithOutcomes', () => {
  it('holds a few of many outcome jobs, and answers in the order of the leases', async () => {
    const { writes, readAtOnce } = await ackOf(200, 'done');
    const perJob = 2 * limits.outcomePartBytesMax + 1024;
    const most = limits.pushBatchBytesMax + limits.outcomesReadAtOnce * perJob;
    expect(Math.max(...writes.map(({ bytes }) => bytes))).toBeLessThan(most);
    expect(readAtOnce).toBe(limits.outcomesReadAtOnce);
  });

  it('reads few bodies at once where they may be long', async () => {
    expect((await ackOf(10, 'done', 16 * 1024 * 1024)).readAtOnce).toBe(1);
  });

  it('ends the leases of topics that name none in one write, without reading a job', async () => {
    expect(await ackOf(200, '')).toEqual({ writes: [{ items: 200, bytes: 0 }], readAtOnce: 0 });
  });
});
