// Coalescing alone; that the store then does what it should is tested with a real one (test/role/intake-*).
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

/** Hands over the given bodies in one turn; answers the calls that came of it, and what each ticket was told. */
async function pushed(
  sizes: readonly number[],
  answer: (jobs: readonly PushJob[]) => Promise<readonly PushOutcome[]>,
) {
  const calls: string[][] = [];
  const told: [string, PushOutcome][] = [];
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
      settle: (outcome) => told.push([ticket.job.id, outcome]),
    };
    queue.add(ticket);
  });
  while (told.length < sizes.length) await new Promise((resolve) => setImmediate(resolve));
  return { calls, told, failures };
}

const kept = async (jobs: readonly PushJob[]): Promise<readonly PushOutcome[]> =>
  jobs.map(({ id }) => ({ kind: 'kept', version: Number(id), dueAt: 0, state: 'ready' }));

it('sends what comes in one turn as one call, and tells each ticket its own outcome', async () => {
  const { calls, told } = await pushed([1, 1, 1], kept);
  expect(calls).toEqual([['0', '1', '2']]);
  expect(told.map(([id, outcome]) => [id, 'version' in outcome && String(outcome.version)])).toEqual([
    ['0', '0'],
    ['1', '1'],
    ['2', '2'],
  ]);
});

it('keeps a call to its number of jobs and bytes, in order', async () => {
  const many = await pushed(
    Array.from({ length: 2 * limits.pushBatchMax + 1 }, () => 1),
    kept,
  );
  expect(many.calls.map((ids) => ids.length)).toEqual([limits.pushBatchMax, limits.pushBatchMax, 1]);
  expect(many.calls.flat()).toEqual(many.told.map(([id]) => id));
  const half = limits.pushBatchBytesMax / 2;
  expect((await pushed([half, half, 1], kept)).calls).toEqual([['0', '1'], ['2']]);
  expect((await pushed([1, 2 * limits.pushBatchBytesMax, 1], kept)).calls).toEqual([['0'], ['1'], ['2']]);
});

it('a call that breaks off leaves its tickets unknown, and is reported', async () => {
  const { told, failures } = await pushed([1, 1], () => Promise.reject(new Error('gone')));
  expect(told.map(([, outcome]) => outcome.kind)).toEqual(['unknown', 'unknown']);
  expect(failures).toHaveLength(1);
});

it('tells a ticket at once what is known before the rest of its call, and never again', async () => {
  const told: [string, string][] = [];
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
    queue.add({ job: jobOf(id), settle: ({ kind }) => told.push([id, kind]) });
  await until('the one that is known is told', () => told.length > 0);
  expect(told).toEqual([['1', 'kept']]);
  answer([stored, stored, { kind: 'unknown', code: 'x' }]);
  await until('the others are told', () => told.length > 2);
  expect(told).toEqual([
    ['1', 'kept'],
    ['0', 'kept'],
    ['2', 'unknown'],
  ]);
});

it('an answer that is too short leaves the rest unknown', async () => {
  const { told } = await pushed([1, 1], async (jobs) => (await kept(jobs)).slice(0, 1));
  expect(told.map(([, outcome]) => outcome.kind)).toEqual(['kept', 'unknown']);
});

/** A store that answers when told to. */
function holdingQueue() {
  const calls: { ids: string[]; answer: () => void }[] = [];
  const told: string[] = [];
  const queue = new PushQueue(
    {
      push: (jobs) =>
        new Promise((resolve) => {
          calls.push({ ids: jobs.map(({ id }) => id), answer: () => resolve(kept(jobs)) });
        }),
    },
    () => {},
  );
  const add = (id: string) => queue.add({ job: jobOf(id), settle: () => void told.push(id) });
  return { calls, told, add };
}

it('gathers what comes while a call is under way, and sends it before that answer is handed out', async () => {
  const { calls, told, add } = holdingQueue();
  add('0');
  await until('the first call', () => calls.length === 1);
  add('1');
  // Another turn, in which a call of its own could have gone.
  await new Promise((resolve) => setImmediate(resolve));
  add('2');
  calls[0]?.answer();
  await until('the first is told', () => told.length === 1);
  expect(calls.map(({ ids }) => ids)).toEqual([['0'], ['1', '2']]);
  calls[1]?.answer();
  await until('all are told', () => told.length === 3);
});

it('does not wait for a store that hangs', async () => {
  const { calls, told, add } = holdingQueue();
  add('0');
  await until('the first call', () => calls.length === 1);
  add('1');
  await until('the second call, though the first has no answer', () => calls.length === 2);
  expect(told).toEqual([]);
  for (const { answer } of calls) answer();
  await until('all are told', () => told.length === 2);
});
