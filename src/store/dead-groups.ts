// Groups dead letters by topic, and by reason and status of the last attempt. Keeps no dead letter.

import type { AttemptRecord } from '../core/job.ts';
import type { DeadGroup, DeadGroups } from '../ports/job-store.ts';
import { storeLimits } from './limits.ts';

const hourMs = 3_600_000;
const hoursKept = 12;

export type LastAttempt = Pick<AttemptRecord, 'reason' | 'status'>;

export class DeadGrouping {
  readonly #groups = new Map<string, DeadGroup & { hours: number[]; count: number }>();
  #examined = 0;

  get examined(): number {
    return this.#examined;
  }

  /** `last`: null without a stored attempt · `now`: the storage clock, epoch ms */
  add(topic: string, deadAt: number, last: LastAttempt | null, now: number): void {
    const { reason: lastReason = null, status = null } = last ?? {};
    const name = JSON.stringify([topic, lastReason, status]);
    const empty = { topic, lastReason, status, count: 0, firstAt: deadAt, lastAt: deadAt };
    const group = this.#groups.get(name) ?? { ...empty, hours: new Array<number>(hoursKept).fill(0) };
    const hour = hoursKept - 1 - Math.floor(Math.max(0, now - deadAt) / hourMs);
    if (hour >= 0) group.hours[hour] = (group.hours[hour] ?? 0) + 1;
    this.#examined += 1;
    this.#groups.set(name, {
      ...group,
      count: group.count + 1,
      firstAt: Math.min(group.firstAt, deadAt),
      lastAt: Math.max(group.lastAt, deadAt),
    });
  }

  /** `isWhole`: every dead letter was added */
  result(isWhole: boolean): DeadGroups {
    const all = [...this.#groups.values()].sort((a, b) => b.count - a.count || b.lastAt - a.lastAt);
    const groups = all.slice(0, storeLimits.deadGroupsMax);
    return { groups, examined: this.#examined, complete: isWhole && groups.length === all.length };
  }
}
