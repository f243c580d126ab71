// Decides which restores a list shows: dq compares what it shipped late at each start, and most of these
// comparisons find nothing.

/** An open comparison that is older waits, for example for a shard that does not answer. */
const usualMs = 60_000;

/** A restore as the API shows it. */
interface ShownRestore {
  readonly kind: string;
  readonly state: string;
  /** RFC 3339 */
  readonly begunAt: string;
  readonly put: number;
  readonly removed: number;
}

/** Whether the restore tells its reader anything. `now`: epoch milliseconds of the reader's clock. */
export function hasNews({ kind, state, begunAt, put, removed }: ShownRestore, now: number): boolean {
  if (kind !== 'shipped' || state === 'failed' || put + removed > 0) return true;
  return state === 'open' && now - Date.parse(begunAt) > usualMs;
}
