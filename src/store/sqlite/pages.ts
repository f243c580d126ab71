// Cursors of newest-first listings: a place in (deadAt, version), not a row, so one stays good when its row has gone.

import { StoreError } from '../job-store.ts';

export interface Place {
  readonly deadAt: number;
  readonly version: number;
}

/** Before everything. */
export const newest: Place = { deadAt: Number.MAX_SAFE_INTEGER, version: Number.MAX_SAFE_INTEGER };

export function cursorOf({ deadAt, version }: Place): string {
  return `${deadAt}.${version}`;
}

/** null = from the newest. Throws StoreError for a text that is no cursor. */
export function placeOf(cursor: string | null): Place {
  if (cursor === null) return newest;
  const [, deadAt, version] = /^(\d{1,16})\.(\d{1,16})$/.exec(cursor) ?? [];
  if (deadAt === undefined || version === undefined)
    throw new StoreError({ kind: 'not_stored', code: 'bad_cursor' });
  return { deadAt: Number(deadAt), version: Number(version) };
}
