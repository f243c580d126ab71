import { closeSync, ftruncateSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { masterLimits } from '../../src/master/limits.ts';
import { readyMsOf } from '../../src/master/workers/worker-process.ts';
import { testDirectory } from '../support/directory.ts';

const embedded = (dataDir: string) => ({ dataDir, 'mysql.url': '' });

/** Without a block of disk. */
function sparse(path: string, bytes: number): void {
  const fd = openSync(path, 'w');
  ftruncateSync(fd, bytes);
  closeSync(fd);
}

describe('ready time', () => {
  it('of dq-store grows with jobs.db and its WAL', () => {
    const dataDir = testDirectory();
    expect(readyMsOf('store', embedded(dataDir))).toBe(masterLimits.storeReadyMs);
    sparse(join(dataDir, 'jobs.db'), 20 * 1024 ** 3);
    const minutes = (readyMsOf('store', embedded(dataDir)) - masterLimits.storeReadyMs) / 60_000;
    // Twenty gigabytes at 100 MB/s are more than three.
    expect(minutes).toBeGreaterThan(3);
    sparse(join(dataDir, 'jobs.db-wal'), 4 * 1024 ** 2);
    expect(readyMsOf('store', embedded(dataDir)) - masterLimits.storeReadyMs - minutes * 60_000).toBe(1_024);
  });

  it('of other workers grows with the registry', () => {
    const dataDir = testDirectory();
    sparse(join(dataDir, 'registry.db'), 60 * 1024 ** 2);
    expect(readyMsOf('notifier', embedded(dataDir))).toBe(masterLimits.workerReadyMs + 61_440);
    sparse(join(dataDir, 'registry.db'), 0);
    sparse(join(dataDir, 'registry-copy.json'), 1024 ** 2);
    expect(readyMsOf('server', embedded(dataDir))).toBe(masterLimits.workerReadyMs + 1_024);
  });

  it('with MySQL assumes a large registry, whatever the copy shows', () => {
    const config = { dataDir: testDirectory(), 'mysql.url': 'mysql://u@h/dq' };
    const large = masterLimits.workerReadyMs + 65_536;
    expect(readyMsOf('server', config)).toBe(large);
    sparse(join(config.dataDir, 'registry-copy.json'), 1024);
    expect(readyMsOf('server', config)).toBe(large);
    sparse(join(config.dataDir, 'registry-copy.json'), 65 * 1024 ** 2);
    expect(readyMsOf('server', config)).toBe(large + 1_024);
    expect(readyMsOf('store', config)).toBe(masterLimits.storeReadyMs);
  });

  it('ignores files that the role does not read, and unreadable ones', () => {
    const dataDir = testDirectory();
    sparse(join(dataDir, 'jobs.db'), 1024 ** 3);
    expect(readyMsOf('notifier', embedded(dataDir))).toBe(masterLimits.workerReadyMs);
    expect(readyMsOf('store', embedded(join(dataDir, 'jobs.db')))).toBe(masterLimits.storeReadyMs);
  });
});
