// Decides how many jobs of an operation may be moved now: a rate, a spread over a time, or no limit.
// A spread moves job n at n / matched of its time. It depends on counts and the storage clock only, so a
// restart changes nothing. After a pause it catches up at twice its pace at most. Rejected: moving all jobs
// at once with delays. A stop could not keep the rest.

import { type OperationRecord, processedOf } from '../../core/operation.ts';
import { monotonicNow } from '../../runtime/time.ts';
import { upkeepLimits } from '../limits.ts';

export class Pace {
  #allowance = 1;
  #at = monotonicNow();

  /** Jobs that may be moved now. `now`: storage clock. */
  allowed(record: OperationRecord, now: number): number {
    const { spreadMs, matched, movingAt } = record;
    const rate = highestRate(record);
    if (rate === null) return Number.POSITIVE_INFINITY;
    const from = this.#at;
    this.#at = monotonicNow();
    // At most one second's jobs at once, so that a pause is not made up for.
    this.#allowance = Math.min(Math.max(1, rate), this.#allowance + (rate * (this.#at - from)) / 1000);
    const allowed = Math.floor(this.#allowance);
    if (spreadMs === null || matched === null) return allowed;
    const part = (now - (movingAt ?? now)) / spreadMs;
    if (part >= 1) return allowed;
    return Math.max(0, Math.min(allowed, Math.floor(part * matched) + 1 - processedOf(record)));
  }

  used(jobs: number): void {
    this.#allowance -= jobs;
  }

  /** Wait before the next look: several jobs of a fast pace share a step. */
  waitMs({ rate, spreadMs, matched }: OperationRecord): number {
    const everyMs = spreadMs !== null ? spreadMs / Math.max(1, matched ?? 1) : 1000 / (rate ?? 1);
    return Math.min(upkeepLimits.operationCheckpointMs, Math.max(upkeepLimits.operationPaceMs, everyMs));
  }
}

/** jobs/s */
function highestRate({ rate, spreadMs, matched }: OperationRecord): number | null {
  if (spreadMs === null) return rate;
  return matched === null ? null : (2_000 * Math.max(1, matched)) / Math.max(1, spreadMs);
}
