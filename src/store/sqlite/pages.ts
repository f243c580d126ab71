// Cursors of listings in order of time: a place in (time, version), not a row, so one stays good when its row has gone.

import { StoreError } from '../job-store.ts';

export interface Place {
  readonly at: number;
  readonly version: number;
}

/** Where a listing starts that goes from the newest back, and one that goes from the oldest on. */
export const newest: Place = { at: Number.MAX_SAFE_INTEGER, version: Number.MAX_SAFE_INTEGER };
export const oldest: Place = { at: 0, version: 0 };

export function cursorOf({ at, version }: Place): string {
  return `${at}.${version}`;
}

/** null = from the start. Throws StoreError for a text that is no cursor. */
export function placeOf(cursor: string | null, start: Place): Place {
  if (cursor === null) return start;
  const [, at, version] = /^(\d{1,16})\.(\d{1,16})$/.exec(cursor) ?? [];
  if (at === undefined || version === undefined)
    throw new StoreError({ kind: 'not_stored', code: 'bad_cursor' });
  return { at: Number(at), version: Number(version) };
}
