// Pages listings in order of time. A cursor is a place in (time, version), not a row: it stays valid when its
// row is removed. Merges the results of several parts of a store into one page.

import type { LateJob } from '../core/incident.ts';
import type { EndState, FoundJob } from '../core/job.ts';
import { limits } from '../core/limits.ts';
import { endCodes } from '../core/stored-codes.ts';
import type { Page, SearchFilter } from '../ports/job-store.ts';
import { StoreError } from '../ports/store-error.ts';

export interface Place {
  readonly at: number;
  readonly version: number;
}

/** Where a listing from the newest back starts. */
export const newest: Place = { at: Number.MAX_SAFE_INTEGER, version: Number.MAX_SAFE_INTEGER };

const isLater = (a: Place, b: Place) => a.at > b.at || (a.at === b.at && a.version > b.version);

/** An order of a listing. `isAfter`: whether a comes after b */
export interface Order<T> {
  readonly start: Place;
  readonly place: (item: T) => Place;
  readonly isAfter: (a: Place, b: Place) => boolean;
}
const newestFirst = { start: newest, isAfter: (a: Place, b: Place) => isLater(b, a) };
const byDue: Order<FoundJob> = {
  start: { at: 0, version: 0 },
  place: ({ dueAt, version }) => ({ at: dueAt, version }),
  isAfter: isLater,
};
const byEnd: Order<FoundJob> = {
  ...newestFirst,
  place: ({ endedAt, version }) => ({ at: endedAt ?? 0, version }),
};
/** Of dead letters and alerts. */
export const byDeath: Order<{ readonly deadAt: number | null; readonly version: number }> = {
  ...newestFirst,
  place: ({ deadAt, version }) => ({ at: deadAt ?? 0, version }),
};

export const isEnd = (state: SearchFilter['state']): state is EndState =>
  (endCodes as readonly unknown[]).includes(state);

export const orderOf = (state: SearchFilter['state']): Order<FoundJob> => (isEnd(state) ? byEnd : byDue);

/** By state and due time. */
export function matches(
  { state, since = 0, until = Infinity }: Pick<SearchFilter, 'state' | 'since' | 'until'>,
  job: FoundJob,
): boolean {
  const isWanted = state === undefined ? job.endedAt === null : job.state === state;
  return isWanted && job.dueAt >= since && job.dueAt < until;
}

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
  { place, isAfter }: Order<T>,
  limit: number,
): Page<T> {
  const edges = parts.flatMap(({ edge }) => edge ?? []);
  const nearest = edges.reduce<Place | null>((a, b) => (a === null || isAfter(a, b) ? b : a), null);
  const found = parts
    .flatMap(({ items }) => items)
    .filter((item) => nearest === null || !isAfter(place(item), nearest))
    .sort((a, b) => (isAfter(place(a), place(b)) ? 1 : -1));
  const items = found.slice(0, limit);
  const last = items.at(-1);
  const next = last !== undefined && found.length > limit ? place(last) : nearest;
  return { items, nextCursor: next === null ? null : cursorOf(next) };
}

/** The overdue jobs that the parts name, for StoreAdmin.counts: one of each topic, those that have been due
 *  the longest first. */
export function oldestByTopic(found: readonly LateJob[]): readonly LateJob[] {
  const oldest = new Map<string, LateJob>();
  for (const job of found.toSorted((a, b) => a.dueAt - b.dueAt))
    if (oldest.size < limits.oldestMax && !oldest.has(job.topic)) oldest.set(job.topic, job);
  return [...oldest.values()];
}
