// Finds dead letters by what their last attempt said. No store has an index of it, so the newest ones are
// examined, a bounded number per call.

import type { AttemptReason, BuryReason } from '../core/job.ts';
import type { DeadFilter, DeadLetter, DeadLetters, Page } from '../ports/job-store.ts';

export interface DeadMarks {
  readonly reason?: BuryReason | undefined;
  /** of the last attempt */
  readonly lastReason?: AttemptReason | undefined;
  /** of the last attempt: `500`, a class `5xx`, or `none` */
  readonly status?: string | undefined;
}

/** null: every dead letter matches. */
export function deadMatcher({
  reason,
  lastReason,
  status,
}: DeadMarks): ((job: DeadLetter) => boolean) | null {
  if (reason === undefined && lastReason === undefined && status === undefined) return null;
  return (job) => {
    const last = job.attempts.at(-1);
    const its = last?.status == null ? 'none' : String(last.status);
    const isStatus = status === undefined || its === status || `${its[0]}xx` === status;
    const isReason = reason === undefined || job.buryReason === reason;
    return isStatus && isReason && (lastReason === undefined || last?.reason === lastReason);
  };
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
