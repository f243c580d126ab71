// What every operation works with: the file, the memory beside it, the rows, the clock of this transaction. No logic.

import type { Database } from '../../sql/database.ts';
import type { JobRows } from './job-rows.ts';
import type { Ledger } from './ledger.ts';

export interface Bench {
  readonly db: Database;
  readonly ledger: Ledger;
  readonly rows: JobRows;
  /** the storage clock, epoch ms; stands still during a transaction */
  readonly now: number;
}

/** When something asked for `delayMs` from now is due. The clock has dropped the part of a millisecond, so one is added:
 *  otherwise it would be early by that part. */
export function dueAfter(now: number, delayMs: number): number {
  return delayMs <= 0 ? now : now + Math.ceil(delayMs) + 1;
}
