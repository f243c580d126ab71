// Pages listings in order of time. A cursor is a place in (time, version), not a row: it stays valid when its
// row is removed. Merges the results of several parts of a store into one page.

import type { FoundJob } from '../core/job.ts';
import type { Page } from '../ports/job-store.ts';
import { StoreError } from '../ports/store-error.ts';

export interface Place {
  readonly at: number;
  readonly version: number;
}

/** Where a listing starts: from the newest back, or from the oldest on. */
export const newest: Place = { at: Number.MAX_SAFE_INTEGER, version: Number.MAX_SAFE_INTEGER };
export const oldest: Place = { at: 0, version: 0 };

/** Whether a comes after b, in one of the two orders. */
export type IsAfter = (a: Place, b: Place) => boolean;
export const isLater: IsAfter = (a, b) => a.at > b.at || (a.at === b.at && a.version > b.version);
export const isEarlier: IsAfter = (a, b) => isLater(b, a);

/** An order of search results. */
export interface Order {
  readonly start: Place;
  readonly place: (job: FoundJob) => Place;
  readonly isAfter: IsAfter;
}
export const byDue: Order = {
  start: oldest,
  place: (job) => ({ at: job.dueAt, version: job.version }),
  isAfter: isLater,
};
export const byEnd: Order = {
  start: newest,
  place: (job) => ({ at: job.endedAt ?? 0, version: job.version }),
  isAfter: isEarlier,
};

export function cursorOf({ at, version }: Place): string {
  return `${at}.${version}`;
}

/** null: from the start. Throws StoreError for an invalid cursor. */
export function placeOf(cursor: string | null, start: Place): Place {
  if (cursor === null) return start;
  const [, at, version] = /^(\d{1,16})\.(\d{1,16})$/.exec(cursor) ?? [];
  if (at === undefined || version === undefined)
    throw new StoreError({ kind: 'not_stored', code: 'bad_cursor' });
  return { at: Number(at), version: Number(version) };
}

/** One part's result, in order; edge: where its scan stopped, null: at the end. */
export interface Part<T> {
  readonly items: readonly T[];
  readonly edge: Place | null;
}

/** Cuts at the nearest edge: another part may have an unscanned item behind it. */
export function mergedPage<T>(
  parts: readonly Part<T>[],
  placeOfItem: (item: T) => Place,
  isAfter: IsAfter,
  limit: number,
): Page<T> {
  const edges = parts.flatMap(({ edge }) => edge ?? []);
  const nearest = edges.reduce<Place | null>((a, b) => (a === null || isAfter(a, b) ? b : a), null);
  const found = parts
    .flatMap(({ items }) => items)
    .filter((item) => nearest === null || !isAfter(placeOfItem(item), nearest))
    .sort((a, b) => (isAfter(placeOfItem(a), placeOfItem(b)) ? 1 : -1));
  const items = found.slice(0, limit);
  const last = items.at(-1);
  const next = last !== undefined && found.length > limit ? placeOfItem(last) : nearest;
  return { items, nextCursor: next === null ? null : cursorOf(next) };
}
