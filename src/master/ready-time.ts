// How long a worker may take until it is ready before it is taken for stuck and killed. dq-store reads the whole file after
// an unclean end (store-file.ts), in one piece and without a sign of life, so its time grows with the file: with a fixed one, a
// store too large to be read in it could never be opened again. The others read all topics before they are ready. Looks at sizes only; opens nothing.

import { statSync } from 'node:fs';
import { join } from 'node:path';
import { limits } from '../core/limits.ts';
import type { RoleName } from '../process/messages.ts';

export function readyMsOf(role: RoleName, dataDir: string): number {
  if (role !== 'store') {
    // The embedded registry, or the copy of the one in MySQL, which is as large.
    const registry = sizeOf(join(dataDir, 'registry.db')) + sizeOf(join(dataDir, 'registry-copy.json'));
    return limits.workerReadyMs + Math.ceil(registry / limits.registryReadBytesPerMs);
  }
  const bytes = sizeOf(join(dataDir, 'jobs.db')) + sizeOf(join(dataDir, 'jobs.db-wal'));
  return limits.storeReadyMs + Math.ceil(bytes / limits.storeCheckBytesPerMs);
}

function sizeOf(path: string): number {
  try {
    return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    // Whatever is wrong with the directory, dq-store says it better.
    return 0;
  }
}
