// Tests how pushes, lines of connections and batches reach a scripted store. test/role/intake-* use a real
// one.
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import type { JobStore, PushJob, PushOutcome } from '../../src/ports/job-store.ts';
import { useCaseLimits } from '../../src/use-cases/limits.ts';
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

const stored: PushOutcome = { kind: 'kept', version: 1, dueAt: 0, state: 'ready' };
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A queue over this store, and in order what it has settled. */
function queueOn(push: JobStore['push']) {
  const settled = new Map<string, PushOutcome>();
  const failures: unknown[] = [];
  const queue = new PushQueue({ push }, (error) => failures.push(error));
  const ticket = (id: string, bytes = 1): PushTicket => ({
    job: jobOf(id, bytes),
    settle: (outcome) => {
      if (settled.has(id)) throw new Error(`${id} is settled twice`);
      settled.set(id, outcome);
    },
  });
  return { settled, failures, queue, ticket };
}

/** A queue whose store calls wait until the test answers them. */
function scripted() {
  const calls: { readonly ids: readonly string[]; readonly bytes: number; answer(): void }[] = [];
  const on = queueOn(
    (jobs) =>
      new Promise((resolve) => {
        const bytes = jobs.reduce((sum, { body }) => sum + body.length, 0);
        calls.push({ ids: jobs.map(({ id }) => id), bytes, answer: () => resolve(jobs.map(() => stored)) });
      }),
  );
  const { queue, ticket, settled } = on;
  const batch = (name: string, items: number, bytes: number) => {
    let at = 0;
    return () => (at < items ? ticket(`${name}${at++}`, bytes) : null);
  };
  const connections = new Map<string, object>();
  const push = (connection: string, n: number, bytes = 1) => {
    const key = connections.get(connection) ?? {};
    connections.set(connection, key);
    queue.addInTurn(key, ticket(`${connection}${n}`, bytes));
  };
  let answered = 0;
  const answerUntil = (count: number) =>
    until(`${count} are settled`, () => {
      for (const call of calls.slice(answered)) call.answer();
      answered = calls.length;
      return settled.size >= count;
    });
  const entered = () => calls.flatMap(({ ids }) => ids);
  return { ...on, calls, batch, push, answerUntil, entered };
}

const names = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${name}${n}`);

describe('push queue', () => {
  /** Adds the given bodies in one turn; returns the store calls and the outcome of each ticket. */
  async function pushed(
    sizes: readonly number[],
    answer: (jobs: readonly PushJob[]) => Promise<readonly PushOutcome[]>,
  ) {
    const calls: string[][] = [];
    const { queue, ticket, settled, failures } = queueOn((jobs) => {
      calls.push(jobs.map(({ id }) => id));
      return answer(jobs);
    });
    for (const [n, bytes] of sizes.entries()) queue.add(ticket(String(n), bytes));
    while (settled.size < sizes.length) await turn();
    return { calls, settled: [...settled], kinds: [...settled.values()].map(({ kind }) => kind), failures };
  }

  const kept = async (jobs: readonly PushJob[]): Promise<readonly PushOutcome[]> =>
    jobs.map(({ id }) => ({ kind: 'kept', version: Number(id), dueAt: 0, state: 'ready' }));

  it('one call per turn, each ticket gets its own outcome', async () => {
    const { calls, settled } = await pushed([1, 1, 1], kept);
    expect(calls).toEqual([['0', '1', '2']]);
    expect(settled).toMatchObject(['0', '1', '2'].map((id) => [id, { version: Number(id) }]));
  });

  it('a call has at most its jobs and bytes, in order', async () => {
    const many = await pushed(Array<number>(2 * limits.pushBatchMax + 1).fill(1), kept);
    expect(many.calls.map((ids) => ids.length)).toEqual([limits.pushBatchMax, limits.pushBatchMax, 1]);
    expect(many.calls.flat()).toEqual(many.settled.map(([id]) => id));
    const half = limits.pushBatchBytesMax / 2;
    expect((await pushed([half, half, 1], kept)).calls).toEqual([['0', '1'], ['2']]);
    expect((await pushed([1, 2 * limits.pushBatchBytesMax, 1], kept)).calls).toEqual([['0'], ['1'], ['2']]);
  });

  it('a rejected call makes its tickets unknown, and is reported', async () => {
    const { kinds, failures } = await pushed([1, 1], () => Promise.reject(new Error('gone')));
    expect(kinds).toEqual(['unknown', 'unknown']);
    expect(failures).toHaveLength(1);
  });

  it('a too short answer leaves the rest unknown', async () => {
    const { kinds } = await pushed([1, 1], async (jobs) => (await kept(jobs)).slice(0, 1));
    expect(kinds).toEqual(['kept', 'unknown']);
  });

  it('settles an early outcome at once, and only once', async () => {
    let answer: (outcomes: readonly PushOutcome[]) => void = () => {};
    const { queue, ticket, settled } = queueOn((_, onStored) => {
      onStored?.(1, stored);
      return new Promise((resolve) => {
        answer = resolve;
      });
    });
    for (const id of ['0', '1', '2']) queue.add(ticket(id));
    await until('the known one is settled', () => settled.size > 0);
    expect([...settled]).toEqual([['1', stored]]);
    const unknown: PushOutcome = { kind: 'unknown', code: 'x' };
    answer([stored, stored, unknown]);
    await until('the others are settled', () => settled.size > 2);
    expect([...settled]).toEqual([
      ['1', stored],
      ['0', stored],
      ['2', unknown],
    ]);
  });

  it('collects during a call, and sends before it settles that call', async () => {
    const { calls, settled, queue, ticket } = scripted();
    queue.add(ticket('0'));
    await until('the first call', () => calls.length === 1);
    queue.add(ticket('1'));
    // Another turn, in which an extra call could have been sent.
    await turn();
    queue.add(ticket('2'));
    calls[0]?.answer();
    await until('the first is settled', () => settled.size === 1);
    expect(calls.map(({ ids }) => ids)).toEqual([['0'], ['1', '2']]);
    calls[1]?.answer();
    await until('all are settled', () => settled.size === 3);
  });

  it('does not wait for a hanging store', async () => {
    const { calls, settled, queue, ticket, answerUntil } = scripted();
    queue.add(ticket('0'));
    await until('the first call', () => calls.length === 1);
    queue.add(ticket('1'));
    await until('the second call, though the first has no answer', () => calls.length === 2);
    expect(settled.size).toBe(0);
    await answerUntil(2);
  });
});

describe('push queue, batches', () => {
  it('a single push waits behind at most one transaction', async () => {
    const { calls, settled, queue, ticket, batch } = scripted();
    for (const name of ['a', 'b', 'c']) queue.addBatch(batch(name, 1_000, 64 * 1024));
    queue.add(ticket('own'));
    await until('its call is with the store', () => calls.some(({ ids }) => ids.includes('own')));
    const earlier = calls.slice(0, calls.findIndex(({ ids }) => ids.includes('own')) + 1);
    const bytes = earlier.reduce((sum, call) => sum + call.bytes, 0);
    expect(bytes).toBeLessThanOrEqual(useCaseLimits.batchFeedBytesMax + limits.pushBatchBytesMax);
    // No further call before an answer.
    await turn();
    expect(calls.reduce((sum, call) => sum + call.bytes, 0)).toBe(bytes);
    for (const call of earlier) call.answer();
    await until('its outcome is settled', () => settled.has('own'));
    expect(calls.length).toBeGreaterThan(earlier.length);
  });

  it('batches take turns, keep their order, settle every push', async () => {
    const { queue, batch, answerUntil, entered } = scripted();
    for (const name of ['a', 'b']) queue.addBatch(batch(name, 2_500, 1));
    await answerUntil(5_000);
    const order = entered();
    for (const name of ['a', 'b'])
      expect(order.filter((id) => id.startsWith(name))).toEqual(names(name, 2_500));
    // The second batch began long before the end of the first.
    expect(order.indexOf('b0')).toBeLessThanOrEqual(useCaseLimits.batchFeedItemsMax + limits.pushBatchMax);
  });

  it('a batch of small bodies goes to the store at once', async () => {
    const { calls, queue, batch, entered } = scripted();
    queue.addBatch(batch('a', 1_000, 100));
    await until('all are with the store', () => entered().length === 1_000);
    expect(calls.map(({ ids }) => ids.length)).toEqual(Array(10).fill(100));
  });

  it('bodies larger than a portion go one by one', async () => {
    const { calls, settled, queue, batch } = scripted();
    queue.addBatch(batch('a', 3, useCaseLimits.batchFeedBytesMax));
    for (let n = 0; n < 3; n++) {
      await until('the next is with the store', () => calls.length === n + 1);
      expect(settled.size).toBe(n);
      calls[n]?.answer();
    }
    await until('all are settled', () => settled.size === 3);
  });
});

describe('push queue, turns', () => {
  it('a push never waits behind all that another connection has sent', async () => {
    const { push, answerUntil, entered } = scripted();
    for (const connection of ['deep', 'deeper']) for (let n = 0; n < 8_000; n++) push(connection, n);
    push('other', 0);
    await answerUntil(16_001);
    const order = entered();
    const share = useCaseLimits.batchFeedItemsMax + 3 * limits.pushBatchMax;
    expect(order.indexOf('other0')).toBeLessThan(share);
    expect(order.indexOf('deeper500')).toBeLessThan(order.indexOf('deep2000'));
    for (const connection of ['deep', 'deeper'])
      expect(order.filter((id) => id.replace(/\d+$/, '') === connection)).toEqual(names(connection, 8_000));
  });

  it('keep the order of a connection when its line begins and ends', async () => {
    const { settled, push, answerUntil, entered } = scripted();
    let sent = 0;
    for (const count of [150, 1, 3_000, 20, 99, 2]) {
      for (let n = 0; n < count; n++) push('a', sent++);
      await answerUntil(settled.size + (sent - settled.size) / 2);
    }
    await answerUntil(sent);
    expect(entered()).toEqual(names('a', sent));
  });

  it('large bodies use up the share of a connection', async () => {
    const { push, entered } = scripted();
    const bytes = limits.pushBatchBytesMax / 2;
    for (let n = 0; n < 100; n++) push('large', n, bytes);
    push('other', 0);
    await until('the other is with the store', () => entered().includes('other0'));
    expect(entered().length * bytes).toBeLessThan(
      useCaseLimits.batchFeedBytesMax + 3 * limits.pushBatchBytesMax,
    );
  });

  it('a push behind a full line is surely not stored, and the line goes on', async () => {
    const { settled, push, answerUntil, entered } = scripted();
    const bytes = limits.pushBatchBytesMax;
    const many = 3 + 4 + useCaseLimits.lineBytesMax / bytes;
    for (let n = 0; n < many; n++) push('a', n, bytes);
    const rejected = [...settled];
    expect(rejected[0]?.[1]).toEqual({ kind: 'not_stored', code: 'line_full' });
    await answerUntil(many);
    expect(entered()).toHaveLength(many - rejected.length);
  });
});
