// Waiting for a lock that another connection holds, without blocking: the registry is opened in the process that serves the
// job store, where SQLite's own busy handler would hold up every push.

import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../../core/limits.ts';
import { isBusy } from '../store-failure.ts';

/** Repeats `work` while the database is locked, for up to limits.registryBusyMs. What was busy has done nothing. */
export async function untilFree<T>(work: () => Promise<T>): Promise<T> {
  const end = performance.now() + limits.registryBusyMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= end) throw error;
      await sleep(limits.registryBusyStepMs);
    }
  }
}
