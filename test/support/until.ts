// Waits in tests for a condition with a deadline; never for a time.
import { setTimeout as sleep } from 'node:timers/promises';

/** Long, because it proves nothing: conditions take milliseconds on a quiet machine and many seconds on
 *  a busy one. */
let usualDeadlineMs = 120_000;

/** Ends what hangs before the test ends (vitest.config.ts): nothing else may take so long. */
export const hungMs = 240_000;

/** A shorter deadline for a file whose tests wait for conditions that must not come true. */
export function setUsualDeadline(ms: number): void {
  usualDeadlineMs = ms;
}

export interface UntilOptions {
  /** only of a test that proves that something happens soon */
  readonly deadlineMs?: number;
  /** ms between two polls, for a state that lasts only a moment. Default: a twentieth of the time that has
   *  passed, 10 to 50 ms: a poll can cost a request to a daemon or a process. */
  readonly everyMs?: number;
}

/** Polls `condition` until it returns a truthy value, and returns that; fails with `what` and the last
 *  value. Hazard: an exception counts as not yet, so an expectation in `condition` is repeated instead of
 *  failing at once. */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  { deadlineMs = usualDeadlineMs, everyMs }: UntilOptions = {},
): Promise<NonNullable<T>> {
  const start = performance.now();
  let last: unknown;
  for (;;) {
    try {
      const value = await condition();
      if (value) return value as NonNullable<T>;
      last = value;
    } catch (error) {
      last = error;
    }
    const passedMs = performance.now() - start;
    if (passedMs > deadlineMs)
      throw new Error(`not within ${deadlineMs} ms: ${what} (last: ${String(last)})`);
    await sleep(everyMs ?? Math.min(Math.max(passedMs / 20, 10), 50));
  }
}
