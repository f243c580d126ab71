// Processes that write a spool are killed with -9: at chosen operations on files, and at any moment.

import { expect, it } from 'vitest';
import { changeOf, readAll, spoolDirectory, WriterProcess } from '../support/spool.ts';
import { until } from '../support/until.ts';

// test/unit/spool-damage has every operation, without a process.
it.each(['before sync 2', 'any moment'])(
  'kill -9, %s: every answered change is read, each once',
  async (place) => {
    const directory = spoolDirectory();
    const dataDir = directory.path.slice(0, -'/spool'.length);
    const isChosen = place !== 'any moment';
    const writer = await WriterProcess.start(dataDir, 16 * 1024, isChosen ? place : '');
    if (isChosen) expect(await writer.ended()).toBe('SIGKILL');
    else {
      await until('some answers', () => writer.answered.length >= 333);
      await writer.kill();
    }
    const read = await readAll(directory);
    const numbers = read.changes.map(({ number }) => number);
    expect(read).toMatchObject({ state: 'ended', damaged: [] });
    expect(new Set(numbers).size).toBe(numbers.length);
    expect(numbers).toEqual(expect.arrayContaining(writer.answered));
    expect(numbers.length).toBeLessThanOrEqual(writer.answered.length + 2 * 8);
    for (const change of read.changes)
      expect(change).toEqual(changeOf(change.number, 'accepted', 'x'.repeat(change.number % 700)));
  },
);
