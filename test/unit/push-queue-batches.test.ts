// Tests the order and the portions in which batches enter a real push queue, with a scripted store.
import { expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import type { PushJob, PushOutcome } from '../../src/ports/job-store.ts';
import { useCaseLimits } from '../../src/use-cases/limits.ts';
import { PushQueue, type PushTicket } from '../../src/use-cases/push-queue.ts';
import { until } from '../support/until.ts';

const stored: PushOutcome = { kind: 'kept', version: 1, dueAt: 0, state: 'ready' };

function jobOf(id: string, bytes: number): PushJob {
  const body = Buffer.alloc(bytes);
  return {
    topic: 't',
    id,
    when: { delayMs: 0 },
    ...{ mode: 'replace', priority: 'normal', contentType: null, body },
  };
}

/** A queue whose store calls wait until the test answers them, one by one. */
function scripted() {
  const calls: { readonly ids: readonly string[]; readonly bytes: number; answer(): void }[] = [];
  const settled: string[] = [];
  const queue = new PushQueue(
    {
      push: (jobs) =>
        new Promise<readonly PushOutcome[]>((resolve) => {
          const bytes = jobs.reduce((sum, { body }) => sum + body.length, 0);
          calls.push({ ids: jobs.map(({ id }) => id), bytes, answer: () => resolve(jobs.map(() => stored)) });
        }),
    },
    (error) => {
      throw error;
    },
  );
  const ticket = (id: string, bytes: number): PushTicket => ({
    job: jobOf(id, bytes),
    settle: () => settled.push(id),
  });
  const batch = (name: string, items: number, bytes: number) => {
    let at = 0;
    return () => (at < items ? ticket(`${name}${at++}`, bytes) : null);
  };
  return { calls, settled, queue, ticket, batch };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

it('push queue, batches: a single push waits behind at most one transaction', async () => {
  const { calls, settled, queue, ticket, batch } = scripted();
  for (const name of ['a', 'b', 'c']) queue.addBatch(batch(name, 1_000, 64 * 1024));
  queue.add(ticket('own', 1));
  await until('its call is with the store', () => calls.some(({ ids }) => ids.includes('own')));
  const earlier = calls.slice(0, calls.findIndex(({ ids }) => ids.includes('own')) + 1);
  const bytes = earlier.reduce((sum, call) => sum + call.bytes, 0);
  expect(bytes).toBeLessThanOrEqual(useCaseLimits.batchFeedBytesMax + limits.pushBatchBytesMax);
  // No further call before an answer.
  await turn();
  expect(calls.reduce((sum, call) => sum + call.bytes, 0)).toBe(bytes);
  for (const call of earlier) call.answer();
  await until('its outcome is settled', () => settled.includes('own'));
  expect(calls.length).toBeGreaterThan(earlier.length);
});

it('push queue, batches: batches take turns, keep their order, settle every push', async () => {
  const { calls, settled, queue, batch } = scripted();
  for (const name of ['a', 'b']) queue.addBatch(batch(name, 2_500, 1));
  let answered = 0;
  await until('all are settled', () => {
    for (const call of calls.slice(answered)) call.answer();
    answered = calls.length;
    return settled.length === 5_000;
  });
  const entered = calls.flatMap(({ ids }) => ids);
  for (const name of ['a', 'b'])
    expect(entered.filter((id) => id.startsWith(name))).toEqual(
      Array.from({ length: 2_500 }, (_, n) => `${name}${n}`),
    );
  // The second batch began long before the end of the first.
  expect(entered.indexOf('b0')).toBeLessThanOrEqual(useCaseLimits.batchFeedItemsMax + limits.pushBatchMax);
});

it('push queue, batches: a batch of small bodies goes to the store at once', async () => {
  const { calls, queue, batch } = scripted();
  queue.addBatch(batch('a', 1_000, 100));
  await until('all are with the store', () => calls.flatMap(({ ids }) => ids).length === 1_000);
  expect(calls.map(({ ids }) => ids.length)).toEqual(Array(10).fill(100));
});

it('push queue, batches: bodies larger than a portion go one by one', async () => {
  const { calls, settled, queue, batch } = scripted();
  queue.addBatch(batch('a', 3, useCaseLimits.batchFeedBytesMax));
  for (let n = 0; n < 3; n++) {
    await until('the next is with the store', () => calls.length === n + 1);
    expect(settled).toHaveLength(n);
    calls[n]?.answer();
  }
  await until('all are settled', () => settled.length === 3);
});
