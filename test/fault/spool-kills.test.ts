// Processes that write a spool are killed with -9 at any moment.

import { expect, it } from 'vitest';
import { changeOf, readAll, spoolDirectory, WriterProcess } from '../support/spool.ts';
import { until } from '../support/until.ts';

it('kill -9 at any moment: every answered change is read, each once, and nothing damaged', async () => {
  for (const count of [1, 40, 200, 333, 700]) {
    const directory = spoolDirectory();
    const dataDir = directory.path.slice(0, -'/spool'.length);
    // Small segments: a kill often comes while one is made.
    const writer = await WriterProcess.start(dataDir, 16 * 1024);
    await until('some answers', () => writer.answered.length >= count);
    await writer.kill();
    const read = await readAll(directory);
    const numbers = read.changes.map(({ number }) => number);
    expect(read).toMatchObject({ state: 'ended', damaged: [] });
    expect(new Set(numbers).size).toBe(numbers.length);
    expect(numbers).toEqual(expect.arrayContaining(writer.answered));
    expect(numbers.length).toBeLessThanOrEqual(writer.answered.length + 2 * 8);
    for (const change of read.changes)
      expect(change).toEqual(changeOf(change.number, 'accepted', 'x'.repeat(change.number % 700)));
  }
});
