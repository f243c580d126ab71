// settle() decides from the verdict whether the notifier acks, retries or buries the job. Pure.
// Invariant: every failure counts against maxAttempts, so every job ends.

import type { BuryReason } from '../core/job.ts';
import { retryDelayMs } from '../core/retry-policy.ts';
import type { Topic } from '../core/topic/topic.ts';
import type { Verdict } from '../core/verdict.ts';

export type Settlement =
  | { readonly kind: 'ack' }
  /** from the end of the attempt to the next one */
  | { readonly kind: 'retry'; readonly delayMs: number }
  | { readonly kind: 'bury'; readonly reason: Exclude<BuryReason, 'poison'> };

/** `topic`: the current one, not that of the start of the attempt, with the options of the job.
 *  `failures`: failed attempts before this one. */
export function settle(
  topic: Pick<Topic, 'maxAttempts' | 'backoff' | 'jitter'>,
  failures: number,
  verdict: Verdict,
  retryUnitMs: number,
  random: () => number,
): Settlement {
  if (verdict.outcome === 'delivered') return { kind: 'ack' };
  if (verdict.noMoreAttempts !== null) return { kind: 'bury', reason: verdict.noMoreAttempts };
  // ≥: maxAttempts may have been lowered below the job's failed attempts.
  if (failures + 1 >= topic.maxAttempts) return { kind: 'bury', reason: 'attempts_exhausted' };
  return {
    kind: 'retry',
    delayMs: retryDelayMs(topic, failures, retryUnitMs, random, verdict.retryAfterMs),
  };
}

/** `leftMs`: from the end of the attempt to the deadline of the job. No attempt starts after the deadline, so
 *  a job whose next one would is dead at once. */
export function beforeDeadline(settlement: Settlement, leftMs: number): Settlement {
  const isLate = settlement.kind === 'retry' && settlement.delayMs > leftMs;
  return isLate ? { kind: 'bury', reason: 'expired' } : settlement;
}
