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

/** When the first attempt since the push or the last requeue was due: a retry moves the due time of its job,
 *  and only the record of that attempt still has it. null: it is not kept. */
export function firstDueAt({
  attempts,
  failures,
  dueAt,
}: Attempted & { readonly dueAt: number }): number | null {
  if (failures === 0) return dueAt;
  const since = attempts.slice(attemptsBeforeRequeue(attempts, failures));
  const first = since.find(({ attempt }) => attempt === 1);
  return first?.latenessMs === undefined ? null : first.startedAt - first.latenessMs;
}
