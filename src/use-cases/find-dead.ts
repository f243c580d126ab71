// Finds dead letters by what their last attempt said. No store has an index of it, so the newest ones are
// examined, a bounded number per call.

import { type DeadMarks, hasMarks } from '../core/dead-marks.ts';
import type { DeadFilter, DeadLetter, DeadLetters, Page } from '../ports/job-store.ts';

/** null: every dead letter matches. */
export function deadMatcher(marks: DeadMarks): ((job: DeadLetter) => boolean) | null {
  const hasAny = Object.values(marks).some((mark) => mark !== undefined);
  return hasAny ? (job) => hasMarks(marks, job) : null;
}

/** Newest death first. A page ends when it is half full or rowsMax dead letters were examined, so that no
 *  page is longer than `limit` and no call examines them one by one. */
export async function findDead(
  dead: DeadLetters,
  filter: DeadFilter,
  isWanted: ((job: DeadLetter) => boolean) | null,
  { limit, cursor, rowsMax }: { limit: number; cursor: string | null; rowsMax: number },
): Promise<Page<DeadLetter>> {
  if (isWanted === null) return dead.list(filter, limit, cursor);
  const items: DeadLetter[] = [];
  const missing = new Set<string>();
  let [left, next] = [rowsMax, cursor];
  do {
    const most = Math.min(limit - items.length, left);
    const page = await dead.list(filter, most, next);
    items.push(...page.items.filter(isWanted));
    for (const name of page.missing ?? []) missing.add(name);
    next = page.nextCursor;
    left -= Math.max(page.items.length, 1);
  } while (next !== null && left > 0 && items.length * 2 < limit);
  return { items, nextCursor: next, ...(missing.size === 0 ? {} : { missing: [...missing] }) };
}
