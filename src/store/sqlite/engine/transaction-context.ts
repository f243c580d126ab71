// What every operation works with: the file, the memory beside it, the rows, the clock of this transaction, and how a time
// that was asked for is read by that clock.

import type { When } from '../../../ports/job-store.ts';
import type { Database } from '../../../runtime/database.ts';
import { sqliteLimits } from '../limits.ts';
import type { JobRows } from './job-rows.ts';
import type { TopicCounters } from './topic-counters.ts';

export interface TransactionContext {
  readonly db: Database;
  readonly ledger: TopicCounters;
  readonly rows: JobRows;
  /** the storage clock, epoch ms; stands still during a transaction */
  readonly now: number;
  /** the disk is full: what is not needed to go on is not written */
  readonly isTight: boolean;
  /** What was found of a damage, and what became of it: a sentence for the log. */
  onDamage(what: string): void;
}

/** Of the jobs that a step would move, how many it may. */
export function stepMax({ isTight }: TransactionContext, max: number): number {
  return isTight ? Math.min(max, sqliteLimits.tightStepMax) : max;
}

/** Does so many of the rows that other callers wait sqliteLimits.bulkStepMs at most, and one always. Answers how many. */
export function bulkStep<R>(rows: readonly R[], act: (row: R) => void): number {
  const end = performance.now() + sqliteLimits.bulkStepMs;
  for (const [done, row] of rows.entries()) {
    if (done > 0 && performance.now() >= end) return done;
    act(row);
  }
  return rows.length;
}

/** When something asked for `delayMs` from now is due. The clock has dropped the part of a millisecond, so one is added:
 *  otherwise it would be early by that part. */
export function dueAfter(now: number, delayMs: number): number {
  return delayMs <= 0 ? now : now + Math.ceil(delayMs) + 1;
}

/** Waiting longer than this would not fit a date; the API refuses less (limits.delayMsMax). */
const dueMax = 8_640_000_000_000_000;

/** What is past is due now. Throws for what is no time. */
export function dueWhen(now: number, when: When): number {
  const asked = 'at' in when ? Math.ceil(when.at) : dueAfter(now, when.delayMs);
  if (!(asked <= dueMax)) throw new Error(`no time to be due at: ${String(asked)}`);
  return Math.max(asked, now);
}
