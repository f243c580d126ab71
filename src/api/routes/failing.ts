// Decides whether attempts fail: the rule of endpoints and of topics. Pure.

import { contractLimits } from '../../contract/api/limits.ts';

const { failingPercent, failingAttempts, failingInRow } = contractLimits;

/** Of many attempts a part, or the last ones in a row. */
export function isFailing({
  delivered,
  failed,
  failuresInRow,
}: {
  readonly delivered: number;
  readonly failed: number;
  readonly failuresInRow: number;
}): boolean {
  const attempts = delivered + failed;
  const fails = attempts >= failingAttempts && failed * 100 >= attempts * failingPercent;
  return fails || failuresInRow >= failingInRow;
}
