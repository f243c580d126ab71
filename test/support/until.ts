// Waiting in tests: for a condition, with a deadline; never for a time.
import { setTimeout as sleep } from 'node:timers/promises';

/** Polls `condition` until it answers something truthy, and answers that. Fails with `what` and the last value otherwise.
 *  30 s, because nothing is proved by them: what they wait for takes ms on a quiet machine, and seconds on one with more work than
 *  cores. A test that proves that something comes soon gives its own, well below what it would take otherwise.
 *  Hazard: an exception counts as not yet, so an expectation inside is tried again instead of failing: judge afterwards. */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  deadlineMs = 30_000,
  everyMs = 10,
): Promise<NonNullable<T>> {
  const end = performance.now() + deadlineMs;
  let last: unknown;
  for (;;) {
    try {
      const value = await condition();
      if (value) return value as NonNullable<T>;
      last = value;
    } catch (error) {
      last = error;
    }
    if (performance.now() > end)
      throw new Error(`not within ${deadlineMs} ms: ${what} (last: ${String(last)})`);
    await sleep(everyMs);
  }
}
