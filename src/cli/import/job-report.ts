// Counts what an import found and what became of it, and names the first jobs that stay behind.

import { cliLimits } from '../limits.ts';

/** Each count with its name in the report. */
export const countNames = {
  due: 'due there',
  delayed: 'delayed there',
  lost: 'lost there',
  deleted: 'deleted there',
  pushed: 'pushed',
  before: 'imported before',
  kept: 'live in dq already',
  tooLarge: 'left: too large',
  withoutTopic: 'left: no topic',
  unreadable: 'left: unreadable',
  rejected: 'left: rejected',
  unknown: 'left: outcome unknown',
  removed: 'removed there',
  changed: 'changed there meanwhile',
} as const;

export type Count = keyof typeof countNames;

const leftBehind: readonly Count[] = ['tooLarge', 'withoutTopic', 'unreadable', 'rejected', 'unknown'];

export class JobReport {
  readonly counts = Object.fromEntries(Object.keys(countNames).map((count) => [count, 0])) as Record<
    Count,
    number
  >;
  readonly problems: { readonly job: string; readonly reason: string }[] = [];

  count(count: Count, n = 1): void {
    this.counts[count] += n;
  }

  leave(count: Count, job: string, reason: string): void {
    this.count(count);
    if (this.problems.length < cliLimits.importNamesMax) this.problems.push({ job, reason });
  }

  get left(): number {
    return leftBehind.reduce((sum, count) => sum + this.counts[count], 0);
  }
}
