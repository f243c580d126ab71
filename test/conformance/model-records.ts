// The model's records of jobs and alerts, their orders, and one page of a list.

import type { EndedJob, FoundJob, Version } from '../../src/core/job.ts';
import type { AlertEntry, Page } from '../../src/ports/job-store.ts';
import type { DumpedJob } from './store-under-test.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
export type ModelJob = Mutable<DumpedJob>;
export type ModelAlert = Mutable<Omit<AlertEntry, 'state'>> & {
  state: 'owed' | 'sent' | 'nobody';
  claimedUntil: number;
};

/** As after a push or requeue. */
export const untried = {
  failures: 0,
  strikes: 0,
  lease: null,
  deadAt: null,
  deadReason: null,
} as const;

export const byDue = (a: ModelJob, b: ModelJob) => a.dueAt - b.dueAt || a.version - b.version;
export const byLeaseEnd = ({ lease: a }: ModelJob, { lease: b }: ModelJob) =>
  a === null || b === null ? 0 : a.untilMs - b.untilMs || a.token - b.token;
export const byEnd = (a: EndedJob, b: EndedJob) => a.endedAt - b.endedAt || a.version - b.version;
export const byDeath = (a: AlertEntry | ModelJob, b: AlertEntry | ModelJob) =>
  (a.deadAt ?? 0) - (b.deadAt ?? 0) || a.version - b.version;

/** The items of a newest-first list after the cursor: a place, not a row, so it stays valid when its row is
 *  gone. */
export function pageOf<T extends { readonly deadAt: number | null; readonly version: Version }>(
  newestFirst: readonly T[],
  limit: number,
  cursor: string | null,
): Page<T> {
  const [deadAt, version] = cursor === null ? [Infinity, Infinity] : (JSON.parse(cursor) as [number, number]);
  const rest = newestFirst.filter(
    (item) => (item.deadAt ?? 0) < deadAt || (item.deadAt === deadAt && item.version < version),
  );
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  const atEnd = last === undefined || rest.length === items.length;
  return { items, nextCursor: atEnd ? null : JSON.stringify([last.deadAt, last.version]) };
}

/** The same for a search: ascending by dueAt, descending by endedAt. */
export function pageOfFound(
  found: readonly FoundJob[],
  by: 'dueAt' | 'endedAt',
  limit: number,
  cursor: string | null,
): Page<FoundJob> {
  const sign = by === 'dueAt' ? 1 : -1;
  const start = [sign * -Infinity, 0];
  const [at = 0, version = 0] = cursor === null ? start : (JSON.parse(cursor) as number[]);
  const place = (job: FoundJob) => [job[by] ?? 0, job.version] as const;
  const rest = found.filter((job) => {
    const [its, itsVersion] = place(job);
    return its === at ? sign * (itsVersion - version) > 0 : sign * (its - at) > 0;
  });
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  const atEnd = last === undefined || rest.length === items.length;
  return { items, nextCursor: atEnd ? null : JSON.stringify(place(last)) };
}
