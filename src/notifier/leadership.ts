// Decides whether this notifier may call jobs when dq was started with `standby`: only those of the leading
// instance may. Each notifier renews the row of its instance by itself, so the death of one costs nothing.
// Invariant: while the registry answers, a notifier that could not renew the row for leaderMs of its own
// monotonic clock calls nothing, also when it stood still in between: the clock is compared before each
// reserve and each call. The row has no fencing token; jobs have their own.

import { limits } from '../core/limits.ts';
import type { Leader, LeaderRow } from '../ports/leadership.ts';
import { FailureLog } from '../runtime/failure-log.ts';
import { Loop } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import type { Log } from '../telemetry/log.ts';
import { notifierLimits } from './limits.ts';

export interface LeadershipOptions {
  /** absent: dq runs without `standby`, and this instance always leads */
  readonly row: LeaderRow | undefined;
  readonly instance: number;
  readonly log: Log;
  /** performance.now() */
  readonly now: () => number;
  /** `text`: for people */
  readonly onChange: (leads: boolean, text: string) => void;
}

export class Leadership implements Service {
  readonly #options: LeadershipOptions;
  readonly #loop: Loop;
  /** until when this instance has the row */
  #leadsUntil = Number.NEGATIVE_INFINITY;
  /** running time without an answer of the registry: a pause of this process counts as one attempt */
  #awayMs = 0;
  /** of the last failed attempt */
  #failedAt = Number.NEGATIVE_INFINITY;
  /** start of the last attempt */
  #askedAt = 0;
  #leader: Leader | null = null;
  #told: string | null = null;

  constructor(options: LeadershipOptions) {
    this.#options = options;
    const failures = new FailureLog(options.log, {
      failure: 'standby: cannot renew the row of the leader',
      end: 'standby: the row of the leader is renewed again',
    });
    this.#loop = new Loop({
      step: async () => {
        await this.#renew(options.row as LeaderRow);
        this.#awayMs = 0;
        failures.succeeded();
        return notifierLimits.leaderEveryMs;
      },
      onFailure: (error) => {
        failures.failed(error);
        this.#failed();
        this.#tell();
      },
      failureWaitMs: notifierLimits.leaderEveryMs,
    });
  }

  async start(): Promise<void> {
    if (this.#options.row !== undefined) await this.#loop.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await this.#loop.drain(deadlineMs);
  }

  /** Whether this notifier may call jobs now. */
  get leads(): boolean {
    const { row, now } = this.#options;
    return row === undefined || now() < this.#leadsUntil || this.#isAlone;
  }

  /** Without the registry no instance can take over, so each goes on by itself. */
  get #isAlone(): boolean {
    const isRecent = this.#options.now() - this.#failedAt < notifierLimits.leaderMs;
    return isRecent && this.#awayMs > notifierLimits.leaderAwayMs;
  }

  /** For people: what this instance does, and why. */
  get text(): string {
    const { row, instance } = this.#options;
    if (row === undefined) return '';
    if (this.#isAlone) return 'delivers: MySQL does not answer, so every instance does';
    if (this.leads) return 'delivers: it leads';
    const other = this.#leader !== null && this.#leader.instance !== instance ? this.#leader : null;
    return other === null || other.leftMs <= 0
      ? 'standby: no instance leads yet'
      : `standby: instance ${other.instance} leads`;
  }

  async #renew(row: LeaderRow): Promise<void> {
    const { instance, now } = this.#options;
    // From before the call: the time of the row begins later than this.
    const askedAt = now();
    this.#askedAt = askedAt;
    const leader = await row.lead(instance, notifierLimits.leaderMs);
    this.#leader = leader;
    const isOwn = leader.instance === instance && leader.leftMs > 0;
    this.#leadsUntil = isOwn ? askedAt + notifierLimits.leaderMs : Number.NEGATIVE_INFINITY;
    this.#tell();
  }

  #failed(): void {
    const now = this.#options.now();
    // An attempt takes at most as long as a call of MySQL and the wait before it.
    const longest = limits.mysqlCallMs + notifierLimits.leaderEveryMs;
    this.#awayMs += Math.min(now - this.#askedAt + notifierLimits.leaderEveryMs, longest);
    this.#failedAt = now;
  }

  #tell(): void {
    const { text } = this;
    if (text === this.#told) return;
    this.#told = text;
    this.#options.onChange(this.leads, text);
  }
}
