// Tests the coalescing of pushes with a scripted store; test/role/intake-* use a real one.
import { expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import type { PushJob, PushOutcome } from '../../src/ports/job-store.ts';
import { PushQueue, type PushTicket } from '../../src/use-cases/push-queue.ts';
import { until } from '../support/until.ts';

const jobOf = (id: string, bytes = 1): PushJob => ({
  topic: 't',
  id,
  when: { delayMs: 0 },
  mode: 'replace',
  priority: 'normal',
  contentType: null,
  body: Buffer.alloc(bytes),
});

/** Adds the given bodies in one turn; returns the store calls and the outcome of each ticket. */
async function pushed(
  sizes: readonly number[],
  answer: (jobs: readonly PushJob[]) => Promise<readonly PushOutcome[]>,
) {
  const calls: string[][] = [];
  const settled: [string, PushOutcome][] = [];
  const failures: unknown[] = [];
  const queue = new PushQueue(
    {
      push: (jobs) => {
        calls.push(jobs.map(({ id }) => id));
        return answer(jobs);
      },
    },
    (error) => failures.push(error),
  );
  sizes.forEach((bytes, n) => {
    const ticket: PushTicket = {
      job: jobOf(String(n), bytes),
      settle: (outcome) => settled.push([ticket.job.id, outcome]),
    };
    queue.add(ticket);
  });
  while (settled.length < sizes.length) await new Promise((resolve) => setImmediate(resolve));
  return { calls, settled, failures };
}

const kept = async (jobs: readonly PushJob[]): Promise<readonly PushOutcome[]> =>
  jobs.map(({ id }) => ({ kind: 'kept', version: Number(id), dueAt: 0, state: 'ready' }));

it('push queue: one call per turn, each ticket gets its own outcome', async () => {
  const { calls, settled } = await pushed([1, 1, 1], kept);
  expect(calls).toEqual([['0', '1', '2']]);
  expect(settled.map(([id, outcome]) => [id, 'version' in outcome && String(outcome.version)])).toEqual([
    ['0', '0'],
    ['1', '1'],
    ['2', '2'],
  ]);
});

it('push queue: a call has at most its jobs and bytes, in order', async () => {
  const many = await pushed(
    Array.from({ length: 2 * limits.pushBatchMax + 1 }, () => 1),
    kept,
  );
  expect(many.calls.map((ids) => ids.length)).toEqual([limits.pushBatchMax, limits.pushBatchMax, 1]);
  expect(many.calls.flat()).toEqual(many.settled.map(([id]) => id));
  const half = limits.pushBatchBytesMax / 2;
  expect((await pushed([half, half, 1], kept)).calls).toEqual([['0', '1'], ['2']]);
  expect((await pushed([1, 2 * limits.pushBatchBytesMax, 1], kept)).calls).toEqual([['0'], ['1'], ['2']]);
});

it('push queue: a rejected call makes its tickets unknown, and is reported', async () => {
  const { settled, failures } = await pushed([1, 1], () => Promise.reject(new Error('gone')));
  expect(settled.map(([, outcome]) => outcome.kind)).toEqual(['unknown', 'unknown']);
  expect(failures).toHaveLength(1);
});

it('push queue: settles an early outcome at once, and only once', async () => {
  const settled: [string, string][] = [];
  const stored: PushOutcome = { kind: 'kept', version: 1, dueAt: 0, state: 'ready' };
  let answer: (outcomes: readonly PushOutcome[]) => void = () => {};
  const queue = new PushQueue(
    {
      push: (_, onStored) => {
        onStored?.(1, stored);
        return new Promise((resolve) => {
          answer = resolve;
        });
      },
    },
    (error) => expect.fail(String(error)),
  );
  for (const id of ['0', '1', '2'])
    queue.add({ job: jobOf(id), settle: ({ kind }) => settled.push([id, kind]) });
  await until('the known one is settled', () => settled.length > 0);
  expect(settled).toEqual([['1', 'kept']]);
  answer([stored, stored, { kind: 'unknown', code: 'x' }]);
  await until('the others are settled', () => settled.length > 2);
  expect(settled).toEqual([
    ['1', 'kept'],
    ['0', 'kept'],
    ['2', 'unknown'],
  ]);
});

it('push queue: a too short answer leaves the rest unknown', async () => {
  const { settled } = await pushed([1, 1], async (jobs) => (await kept(jobs)).slice(0, 1));
  expect(settled.map(([, outcome]) => outcome.kind)).toEqual(['kept', 'unknown']);
});

/** A store that replies when the test calls for it. */
function holdingQueue() {
  const calls: { ids: string[]; answer: () => void }[] = [];
  const settled: string[] = [];
  const queue = new PushQueue(
    {
      push: (jobs) =>
        new Promise((resolve) => {
          calls.push({ ids: jobs.map(({ id }) => id), answer: () => resolve(kept(jobs)) });
        }),
    },
    () => {},
  );
  const add = (id: string) => queue.add({ job: jobOf(id), settle: () => void settled.push(id) });
  return { calls, settled, add };
}

it('push queue: collects during a call, and sends before it settles that call', async () => {
  const { calls, settled, add } = holdingQueue();
  add('0');
  await until('the first call', () => calls.length === 1);
  add('1');
  // Another turn, in which an extra call could have been sent.
  await new Promise((resolve) => setImmediate(resolve));
  add('2');
  calls[0]?.answer();
  await until('the first is settled', () => settled.length === 1);
  expect(calls.map(({ ids }) => ids)).toEqual([['0'], ['1', '2']]);
  calls[1]?.answer();
  await until('all are settled', () => settled.length === 3);
});

it('push queue: does not wait for a hanging store', async () => {
  const { calls, settled, add } = holdingQueue();
  add('0');
  await until('the first call', () => calls.length === 1);
  add('1');
  await until('the second call, though the first has no answer', () => calls.length === 2);
  expect(settled).toEqual([]);
  for (const { answer } of calls) answer();
  await until('all are settled', () => settled.length === 2);
});
