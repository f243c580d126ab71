// Changes that are recorded nowhere: many of them make few lines, and always a mark.

import { expect, it } from 'vitest';
import { DroppedChanges } from '../../src/spool/dropped-changes.ts';
import { spoolDirectory } from '../support/spool.ts';
import { until } from '../support/until.ts';

it('dropped changes: one line a second, with their sum, and a mark after the last one', async () => {
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
  await until('the sum', () => lines.length === 2);
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
