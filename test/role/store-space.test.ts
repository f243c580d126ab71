// Tests that jobs.db has the blocks of its pages before they are committed, as a checkpoint on a full disk
// needs them.

import { statSync } from 'node:fs';
import { expect, it, onTestFinished } from 'vitest';
import { pragma } from '../../src/runtime/database.ts';
import { openEngine } from '../../src/store/sqlite/engine/engine.ts';
import { jobOf } from '../conformance/trial.ts';
import { numbers } from '../support/producing.ts';
import { ownerPaths, temporaryDirectory } from '../support/sqlite-store.ts';

it('jobs.db is as long as its pages at each commit, also after checkpoints', () => {
  const directory = temporaryDirectory();
  const { path } = ownerPaths(directory.path);
  const engine = openEngine(path, { diskReserveBytes: 1024 * 1024 });
  onTestFinished(() => {
    engine.close();
    directory.remove();
  });
  const pageBytes = () => Number(pragma(engine.db, 'page_count')) * 4_096;
  let lengthened = 0;
  for (const n of numbers(60)) {
    const before = statSync(path).size;
    engine.begin('normal');
    engine.push(jobOf(`${n}`, { body: Buffer.alloc(9_000, 1) }));
    engine.commit();
    const { size, blocks } = statSync(path);
    if (size > before) lengthened += 1;
    expect(size).toBeGreaterThanOrEqual(pageBytes());
    expect(blocks * 512).toBeGreaterThanOrEqual(pageBytes());
    if (n % 20 !== 19) continue;
    pragma(engine.db, 'wal_checkpoint(PASSIVE)');
    expect(statSync(path).size).toBe(pageBytes());
  }
  // 60 pushes of 3 pages, in steps of 16 pages, begun again after two checkpoints.
  expect(lengthened).toBeLessThan(20);
});
