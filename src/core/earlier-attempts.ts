// Tells the attempts before a job's last requeue from those after it: a requeue starts the numbers from 1.
// Pure.

import type { AttemptRecord } from './job.ts';

/** How many of `attempts`, oldest first, are from before the last requeue. `failures`: since then. */
export function attemptsBeforeRequeue(attempts: readonly AttemptRecord[], failures: number): number {
  let next = failures + (attempts.at(-1)?.outcome === 'delivered' ? 2 : 1);
  return (
    attempts.findLastIndex(({ attempt }) => {
      const isEarlier = attempt >= next;
      next = attempt;
      return isEarlier;
    }) + 1
  );
}

/** `failures`: since its last requeue. */
interface Attempted {
  /** oldest first */
  readonly attempts: readonly AttemptRecord[];
  readonly failures: number;
}

/** The last attempt since the last requeue: one from before it says nothing about what followed. null: none
 *  is stored. */
export function lastAttemptOf({ attempts, failures }: Attempted): AttemptRecord | null {
  return attemptsBeforeRequeue(attempts, failures) < attempts.length ? (attempts.at(-1) ?? null) : null;
}
