// Tests in which order the pushes of several connections reach a store that answers when the test wants.
import { expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import type { PushJob, PushOutcome } from '../../src/ports/job-store.ts';
import { useCaseLimits } from '../../src/use-cases/limits.ts';
import { PushQueue } from '../../src/use-cases/push-queue.ts';
import { until } from '../support/until.ts';

const stored: PushOutcome = { kind: 'kept', version: 1, dueAt: 0, state: 'ready' };

function scripted() {
  const calls: { readonly ids: readonly string[]; answer(): void }[] = [];
  const settled = new Map<string, PushOutcome>();
  const queue = new PushQueue(
    {
      push: (jobs) =>
        new Promise((resolve) => {
          calls.push({ ids: jobs.map(({ id }) => id), answer: () => resolve(jobs.map(() => stored)) });
        }),
    },
    (error) => expect.fail(String(error)),
  );
  const connections = new Map<string, object>();
  const push = (connection: string, n: number, bytes = 1) => {
    const key = connections.get(connection) ?? {};
    connections.set(connection, key);
    const id = `${connection}${n}`;
    const job: PushJob = {
      ...{ topic: 't', id, when: { delayMs: 0 }, mode: 'replace', priority: 'normal', contentType: null },
      body: Buffer.alloc(bytes),
    };
    queue.addInTurn(key, { job, settle: (outcome) => settled.set(id, outcome) });
  };
  let answered = 0;
  const answerAll = () => {
    for (const call of calls.slice(answered)) call.answer();
    answered = calls.length;
  };
  const entered = () => calls.flatMap(({ ids }) => ids);
  return { settled, push, answerAll, entered };
}

it('push queue, turns: a push never waits behind all that another connection has sent', async () => {
  const { settled, push, answerAll, entered } = scripted();
  for (let n = 0; n < 8_000; n++) push('deep', n);
  for (let n = 0; n < 8_000; n++) push('deeper', n);
  push('other', 0);
  await until('all are settled', () => {
    answerAll();
    return settled.size === 16_001;
  });
  const order = entered();
  const share = useCaseLimits.batchFeedItemsMax + 3 * limits.pushBatchMax;
  expect(order.indexOf('other0')).toBeLessThan(share);
  expect(order.indexOf('deeper500')).toBeLessThan(order.indexOf('deep2000'));
  for (const connection of ['deep', 'deeper'])
    expect(order.filter((id) => id.replace(/\d+$/, '') === connection)).toEqual(
      Array.from({ length: 8_000 }, (_, n) => `${connection}${n}`),
    );
});

it('push queue, turns: keep the order of a connection when its line begins and ends', async () => {
  const { settled, push, answerAll, entered } = scripted();
  let sent = 0;
  for (const count of [150, 1, 3_000, 20, 99, 2]) {
    for (let n = 0; n < count; n++) push('a', sent++);
    const half = settled.size + (sent - settled.size) / 2;
    await until('half of the open ones are settled', () => {
      answerAll();
      return settled.size >= half;
    });
  }
  await until('all are settled', () => {
    answerAll();
    return settled.size === sent;
  });
  expect(entered()).toEqual(Array.from({ length: sent }, (_, n) => `a${n}`));
});

it('push queue, turns: large bodies use up the share of a connection', async () => {
  const { push, entered } = scripted();
  const bytes = limits.pushBatchBytesMax / 2;
  for (let n = 0; n < 100; n++) push('large', n, bytes);
  push('other', 0);
  await until('the other is with the store', () => entered().includes('other0'));
  expect(entered().length * bytes).toBeLessThan(
    useCaseLimits.batchFeedBytesMax + 3 * limits.pushBatchBytesMax,
  );
});

it('push queue, turns: a push behind a full line is surely not stored, and the line goes on', async () => {
  const { settled, push, answerAll, entered } = scripted();
  const bytes = limits.pushBatchBytesMax;
  const many = 3 + 4 + useCaseLimits.lineBytesMax / bytes;
  for (let n = 0; n < many; n++) push('a', n, bytes);
  const rejected = [...settled].map(([id]) => id);
  expect(rejected).not.toEqual([]);
  expect(settled.get(rejected[0] as string)).toEqual({ kind: 'not_stored', code: 'line_full' });
  await until('all are settled', () => {
    answerAll();
    return settled.size === many;
  });
  expect(entered()).toHaveLength(many - rejected.length);
});
