// Waits in tests for a condition, with a deadline; never for a time.
import { setTimeout as sleep } from 'node:timers/promises';

/** Long: it proves nothing. What a test waits for takes milliseconds on a quiet machine, and seconds on a
 *  busy one. */
let usualDeadlineMs = 30_000;

/** For a file whose tests wait for what must not come: shorter, in this file's process. */
export function setUsualDeadline(ms: number): void {
  usualDeadlineMs = ms;
}

/** Polls `condition` until it returns something truthy, and returns that. Otherwise it
 *  fails with `what` and the last value.
 *  A test that proves that something comes soon gives its own deadline.
 * Hazard: an exception counts as not yet, so an expectation in `condition` is repeated instead of failing
 * at once. */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  deadlineMs = usualDeadlineMs,
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
