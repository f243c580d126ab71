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

it('dropped changes: the mark is there when it is closed', async () => {
  const directory = spoolDirectory();
  const dropped = new DroppedChanges(directory, { error: () => {} });
  dropped.add(1);
  await dropped.close();
  expect(await directory.takeDropped()).toBe(true);
});
