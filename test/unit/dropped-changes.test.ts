// Changes that are recorded nowhere: many of them make few lines, and always a mark.

import { expect, it, onTestFinished, vi } from 'vitest';
import { spoolLimits } from '../../src/journal/limits.ts';
import { DroppedChanges } from '../../src/journal/record/dropped-changes.ts';
import { spoolDirectory } from '../support/spool.ts';
import { until } from '../support/until.ts';

it('dropped changes: one line a second, with their sum, and a mark after the last one', async () => {
  // The second passes when the test says so, also while this process stands still.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const directory = spoolDirectory();
  const lines: unknown[] = [];
  const dropped = new DroppedChanges(directory, {
    error: (_message, _error, fields) => void lines.push(fields?.changes),
  });
  for (let n = 0; n < 500; n += 1) {
    dropped.add(2);
    if (n % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  expect(lines).toEqual([2]);
  vi.advanceTimersByTime(spoolLimits.droppedMs - 1);
  expect(lines).toEqual([2]);
  vi.advanceTimersByTime(1);
  expect(lines).toEqual([2, 998]);
  await until('the mark', () => directory.takeDropped());
  dropped.add(5);
  await dropped.close();
  expect(lines).toEqual([2, 998, 5]);
});

it('dropped changes: closed when the mark is written that follows the last of them', async () => {
  const marking: (() => void)[] = [];
  const noteDropped = () => new Promise<void>((resolve) => marking.push(resolve));
  const dropped = new DroppedChanges({ noteDropped }, { error: () => {} });
  dropped.add(1);
  dropped.add(1);
  let isClosed = false;
  const closed = dropped.close().then(() => {
    isClosed = true;
  });
  for (const marks of [1, 2]) {
    await until(`mark ${marks}`, () => marking.length === marks);
    await new Promise((resolve) => setImmediate(resolve));
    expect([marking.length, isClosed]).toEqual([marks, false]);
    marking.at(-1)?.();
  }
  await closed;
  expect(marking).toHaveLength(2);
});

it('dropped changes: a mark that fails is written again', async () => {
  let calls = 0;
  const noteDropped = async () => {
    calls += 1;
    if (calls < 3) throw new Error('EIO');
  };
  const errors: string[] = [];
  const dropped = new DroppedChanges({ noteDropped }, { error: (message) => void errors.push(message) });
  dropped.add(1);
  await until('the mark', () => calls === 2);
  await dropped.close();
  expect(calls).toBe(3);
  expect(errors.filter((message) => message.includes('cannot leave a mark'))).toHaveLength(1);
});

it('dropped changes: a process ends beside a disk that hangs', async () => {
  const dropped = new DroppedChanges({ noteDropped: () => new Promise(() => {}) }, { error: () => {} });
  dropped.add(1);
  await dropped.close();
});
