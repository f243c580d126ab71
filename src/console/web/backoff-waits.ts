// The waits between the attempts of a topic, from its backoff as the API prints it, or as it is typed.
// Invariant: the same as dq computes, and none where dq rejects the backoff (test/unit/console-waits.test.ts
// compares both). The parser of dq is not bundled: it brings those of all fields.

import { parseDuration } from '../../core/duration.ts';

/** As in core/topic/backoff.ts. */
const stepsMax = 50;
const stepMsMax = 10 * 86_400_000;
const factorMax = 100;

/** "1h30m" → ms; null for another text. */
export function durationMs(text: string): number | null {
  const parsed = parseDuration(text);
  return parsed.ok ? parsed.value : null;
}

/** The wait after attempt 1, 2, … in ms, without jitter: one less than attempts. null: dq rejects this
 *  backoff, or it is one of a later version. `unitMs`: retry.unit */
export function waitsOf(
  { backoff, maxAttempts }: { readonly backoff: unknown; readonly maxAttempts: number },
  unitMs: number,
): number[] | null {
  const waits = Array.from({ length: Math.max(1, maxAttempts - 1) }, (_, n) => waitMs(backoff, n, unitMs));
  return waits.includes(null) ? null : (waits as number[]).slice(0, Math.max(0, maxAttempts - 1));
}

function waitMs(backoff: unknown, failures: number, unitMs: number): number | null {
  if (backoff === '2n+1') return (2 * failures + 1) * unitMs;
  if (Array.isArray(backoff)) {
    const steps = backoff.map((step) => wait(step, 0));
    return steps.length > stepsMax || steps.includes(null)
      ? null
      : (steps[Math.min(failures, steps.length - 1)] ?? null);
  }
  const { type, base, factor, cap, ...rest } = Object(backoff) as Readonly<Record<string, unknown>>;
  const [baseMs, capMs] = [wait(base, 1), wait(cap, 1)];
  const isWrong = type !== 'exponential' || Object.keys(rest).length > 0;
  if (isWrong || baseMs === null || capMs === null || capMs < baseMs) return null;
  if (typeof factor !== 'number' || !(factor >= 1 && factor <= factorMax)) return null;
  return Math.min(capMs, baseMs * factor ** failures);
}

function wait(step: unknown, leastMs: number): number | null {
  const ms = typeof step === 'string' ? durationMs(step) : null;
  return ms === null || ms < leastMs || ms > stepMsMax ? null : ms;
}
