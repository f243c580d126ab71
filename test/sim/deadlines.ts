// The deadlines of the jobs of a world, and the rules on them (pushing.md): no attempt starts after a
// deadline, and a job that would have one dies as `expired`. The body of a push names its deadline, so the
// rules do not read what dq stored of it.

import type { Judge } from './judge.ts';
import type { Entry, LeaseRecord } from './ledger.ts';
import type { Loop } from './loop.ts';

/** Messages and turns between a moment and what a process knows of it. */
const messagesMs = 200;
/** From the begin of a transaction, whose time a reserve has, to its COMMIT. */
const transactionMsMax = 50;

/** epoch ms; Infinity: none. A job that an operator made due after it has none any more. */
export function deadlineOf({ body, version, origin, dueAt }: Readonly<Entry>): number {
  const [, text = null] = /^[^;]*;(\d+);/.exec(body.toString('latin1', 0, 60)) ?? [];
  const deadline = text === null ? Number.POSITIVE_INFINITY : Number(text);
  return version !== origin && dueAt > deadline ? Number.POSITIVE_INFINITY : deadline;
}

export interface DeadlinesOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  /** as in LedgerOptions */
  readonly isGentle: boolean;
}

export class Deadlines {
  readonly #options: DeadlinesOptions;
  readonly counts = { 'deadlines judged': 0, expired: 0 };

  constructor(options: DeadlinesOptions) {
    this.#options = options;
  }

  /** A notifier calls the job, or a client gets it: that attempt starts with its lease. */
  attempted({ key, deadline, at, pull }: LeaseRecord, steppedAt: number): void {
    const { loop } = this.#options;
    if (deadline === Number.POSITIVE_INFINITY || steppedAt >= at) return;
    const knownAt = pull === null ? loop.at - messagesMs : at - transactionMsMax;
    this.#check('no attempt starts after the deadline of its job', key, knownAt + loop.wallOffset, deadline);
  }

  /** `delayMs`: from the end of the attempt to the next one */
  retried({ key }: Entry, lease: LeaseRecord, delayMs: number, steppedAt: number): void {
    const { loop, isGentle } = this.#options;
    const endedAt = lease.call?.endedAt ?? null;
    if (lease.deadline === Number.POSITIVE_INFINITY || steppedAt >= lease.at || !isGentle || endedAt === null)
      return;
    const nextAt = endedAt + loop.wallOffset + delayMs - messagesMs;
    this.#check('a job without time for its next attempt dies', key, nextAt, lease.deadline);
  }

  /** `waitMs`: to the next attempt at most; null: the job had none. */
  expired({ key }: Entry, lease: LeaseRecord, waitMs: number | null, steppedAt: number): void {
    const { loop, isGentle, judge } = this.#options;
    this.counts.expired += 1;
    if (steppedAt >= lease.at || (!isGentle && lease.pull !== null)) return;
    const latestAt = loop.wall + (waitMs ?? 0) + (lease.pull === null ? 1 : messagesMs);
    judge.check(
      latestAt >= lease.deadline,
      'a job expires after its deadline alone',
      () => `${key}: ${lease.deadline - latestAt} ms are left`,
    );
  }

  #check(rule: string, key: string, at: number, deadline: number): void {
    this.counts['deadlines judged'] += 1;
    this.#options.judge.check(at <= deadline, rule, () => `${key}: ${at - deadline} ms after it`);
  }
}
