// Decides whether attempts fail: the rule of endpoints and of topics. Pure.

import { contractLimits } from '../../contract/api/limits.ts';
import { endpointWindowMs } from '../../core/endpoint.ts';

const { failingPercent, failingAttempts, failingInRow, failingQuietMs } = contractLimits;

interface Attempts {
  readonly delivered: number;
  readonly failed: number;
  readonly failuresInRow: number;
  /** epoch ms; null: unknown */
  readonly lastFailureAt: number | null;
}

/** Of many attempts a part, or the last ones in a row. `now`: storage clock */
export function isFailing(attempts: Attempts, now: number): boolean {
  const { delivered, failed, failuresInRow } = attempts;
  const count = delivered + failed;
  const fails = count >= failingAttempts && failed * 100 >= count * failingPercent;
  return failuresInRow >= failingInRow || (fails && !hasRecovered(attempts, now));
}

/** The failures within the window have an end. */
function hasRecovered({ failed, failuresInRow, lastFailureAt }: Attempts, now: number): boolean {
  if (failuresInRow > 0 || lastFailureAt === null) return false;
  return now - lastFailureAt > Math.max(failingQuietMs, (3 * endpointWindowMs) / failed);
}
