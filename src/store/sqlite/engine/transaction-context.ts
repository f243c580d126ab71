// Defines what every operation receives: file, counters, rows and the transaction's clock; and how that
// clock reads requested times.

import { largestEpochMs } from '../../../core/duration.ts';
import type { When } from '../../../ports/job-store.ts';
import type { Database } from '../../../runtime/database.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import { sqliteLimits } from '../limits.ts';
import type { JobRows } from './job-rows.ts';
import type { TopicCounters } from './topic-counters.ts';

export interface TransactionContext {
  readonly db: Database;
  readonly counters: TopicCounters;
  readonly rows: JobRows;
  /** the storage clock, epoch ms; constant during a transaction */
  readonly now: number;
  /** the disk is full: optional rows are not written */
  readonly isDiskFull: boolean;
  /** Reports a damaged row and its repair: one sentence for the log. */
  onDamage(what: string): void;
}

/** How many jobs one step may move. */
export function stepMax({ isDiskFull }: TransactionContext, max: number): number {
  return isDiskFull ? Math.min(max, sqliteLimits.diskFullStepMax) : max;
}

/** Processes rows for at most sqliteLimits.bulkStepMs, at least one. Returns how many. */
export function bulkStep<R>(rows: readonly R[], act: (row: R) => void): number {
  const end = monotonicNow() + sqliteLimits.bulkStepMs;
  for (const [done, row] of rows.entries()) {
    if (done > 0 && monotonicNow() >= end) return done;
    act(row);
  }
  return rows.length;
}

/** The due time `delayMs` from now. Adds 1 ms, because the clock has dropped a part of a ms and the job would
 *  be due early by that part. */
export function dueAfter(now: number, delayMs: number): number {
  return delayMs <= 0 ? now : now + Math.ceil(delayMs) + 1;
}

/** Clamps past times to now; throws on NaN and on times above largestEpochMs. The API rejects less
 *  (limits.delayMsMax). */
export function dueWhen(now: number, when: When): number {
  const due = 'at' in when ? Math.ceil(when.at) : dueAfter(now, when.delayMs);
  if (!(due <= largestEpochMs)) throw new Error(`invalid due time: ${String(due)}`);
  return Math.max(due, now);
}
