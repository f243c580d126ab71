// Counts what an import found and what became of it, and names the first jobs that stay behind.

import { cliLimits } from '../limits.ts';

export type Count =
  // In the source
  | 'due'
  | 'delayed'
  | 'lost'
  | 'deleted'
  // In dq
  | 'pushed'
  | 'before'
  | 'kept'
  // Left behind
  | 'tooLarge'
  | 'withoutTopic'
  | 'unreadable'
  | 'rejected'
  | 'unknown'
  // --move
  | 'removed'
  | 'changed';

const leftBehind: readonly Count[] = ['tooLarge', 'withoutTopic', 'unreadable', 'rejected', 'unknown'];

export class JobReport {
  readonly counts: Readonly<Record<Count, number>>;
  readonly problems: { readonly job: string; readonly reason: string }[] = [];

  constructor() {
    this.counts = {
      ...{ due: 0, delayed: 0, lost: 0, deleted: 0, pushed: 0, before: 0, kept: 0, tooLarge: 0 },
      ...{ withoutTopic: 0, unreadable: 0, rejected: 0, unknown: 0, removed: 0, changed: 0 },
    };
  }

  add(count: Count, n = 1): void {
    (this.counts as Record<Count, number>)[count] += n;
  }

  leave(count: Count, job: string, reason: string): void {
    this.add(count);
    if (this.problems.length < cliLimits.importNamesMax) this.problems.push({ job, reason });
  }

  get left(): number {
    return leftBehind.reduce((sum, count) => sum + this.counts[count], 0);
  }
}
