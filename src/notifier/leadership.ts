// Decides whether this notifier may call jobs when dq was started with `standby`: only those of the leading
// instance may. Each notifier renews the row of its instance by itself, so the death of one costs nothing.
// Invariant: while the registry answers, a notifier that could not renew the row for leaderMs of its own
// clocks calls nothing, also when it stood still in between: the clocks are compared before each reserve and
// each call. The monotonic clock stops while the machine is suspended, so the wall clock counts, too; a step
// of it costs one renewal. Jobs have fencing tokens of their own.

import type { Owner } from '../core/job.ts';
import { limits } from '../core/limits.ts';
import type { Leader, LeaderRow } from '../ports/registry.ts';
import { FailureLog } from '../runtime/failure-log.ts';
import { Loop } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import { wallNow } from '../runtime/time.ts';
import { orAfter } from '../runtime/timeout.ts';
import type { Log } from '../telemetry/log.ts';
import { notifierLimits } from './limits.ts';

interface LeadershipOptions {
  /** absent: dq runs without `standby`, and this instance always leads */
  readonly row: LeaderRow | undefined;
  /** of this process */
  readonly owner: Owner;
  readonly log: Log;
  /** monotonicNow() */
  readonly now: () => number;
  /** `text`: for people */
  readonly onChange: (leads: boolean, text: string) => void;
}

export class Leadership implements Service {
  readonly #options: LeadershipOptions;
  readonly #loop: Loop;
  /** until when this instance has the row, by both clocks */
  #leadsUntil = Number.NEGATIVE_INFINITY;
  #leadsUntilDate = Number.NEGATIVE_INFINITY;
  /** running time without an answer of the registry: a pause of this process counts as one attempt */
  #awayMs = 0;
  /** of the last failed attempt */
  #failedAt = Number.NEGATIVE_INFINITY;
  /** end of the last attempt; before the first one: the start of this process */
  #countedAt: number;
  #leader: Leader | null = null;
  #told: string | null = null;
  #started: Promise<void> | null = null;
  #attempted = (): void => {};

  constructor(options: LeadershipOptions) {
    this.#options = options;
    this.#countedAt = options.now();
    const failures = new FailureLog(options.log, {
      failure: 'standby: cannot renew the row of the leader',
      end: 'standby: the row of the leader is renewed again',
    });
    this.#loop = new Loop({
      step: async () => {
        await this.#renew(options.row as LeaderRow);
        this.#awayMs = 0;
        this.#countedAt = options.now();
        failures.succeeded();
        this.#attempted();
        return this.#hasRow ? notifierLimits.leaderEveryMs : notifierLimits.leaderLookMs;
      },
      onFailure: (error) => {
        failures.failed(error);
        this.#failed();
        this.#tell();
        this.#attempted();
      },
      failureWaitMs: notifierLimits.leaderEveryMs,
    });
  }

  /** Resolves after the first attempt: in a reload this process is noted before the older ones give up.
   *  Repeated calls change nothing. */
  async start(): Promise<void> {
    if (this.#options.row === undefined) return;
    this.#started ??= new Promise((resolve) => {
      this.#attempted = resolve;
    });
    await this.#loop.start();
    await this.#started;
  }

  /** Renews no more. */
  async drain(deadlineMs: number): Promise<void> {
    await this.#loop.drain(deadlineMs);
    this.#attempted();
  }

  /** Called after drain(), when no call runs any more: another instance need not wait for the rest of the
   *  time. Without an answer of MySQL it waits for that. Never rejects. */
  async giveUp(): Promise<void> {
    const { row, owner, log } = this.#options;
    if (row === undefined) return;
    const given = row.giveUp(owner).catch((error: unknown) => {
      log.error('standby: cannot give up the row of the leader', error);
    });
    await orAfter(notifierLimits.leaderGiveUpMs, given, undefined);
  }

  /** Whether this notifier may call jobs now. */
  get leads(): boolean {
    return this.#options.row === undefined || this.#hasRow || this.#isAlone;
  }

  get #hasRow(): boolean {
    return this.#options.now() < this.#leadsUntil && wallNow() < this.#leadsUntilDate;
  }

  /** Without the registry no instance can take over, so each leads. */
  get #isAlone(): boolean {
    const isRecent = this.#options.now() - this.#failedAt < notifierLimits.leaderMs;
    return isRecent && this.#awayMs > notifierLimits.leaderAwayMs;
  }

  /** For people: what this instance does, and why. */
  get text(): string {
    const { row, owner } = this.#options;
    if (row === undefined) return '';
    if (this.#isAlone) return 'delivers: MySQL does not answer, so every instance does';
    if (this.leads) return 'delivers: it leads';
    const other = this.#leader !== null && this.#leader.instance !== owner.instance ? this.#leader : null;
    return other === null || other.leftMs <= 0
      ? 'standby: no instance leads yet'
      : `standby: instance ${other.instance} leads`;
  }

  async #renew(row: LeaderRow): Promise<void> {
    const { owner, now } = this.#options;
    // From before the call: the time of the row begins later than this.
    const [askedAt, askedDate] = [now(), wallNow()];
    const leader = await row.lead(owner, notifierLimits.leaderMs);
    this.#leader = leader;
    const isOwn = leader.instance === owner.instance && leader.leftMs > 0;
    this.#leadsUntil = isOwn ? askedAt + notifierLimits.leaderMs : Number.NEGATIVE_INFINITY;
    this.#leadsUntilDate = askedDate + notifierLimits.leaderMs;
    this.#tell();
  }

  #failed(): void {
    const now = this.#options.now();
    // An attempt takes at most as long as a call of MySQL and the wait before it.
    const longest = limits.mysqlCallMs + notifierLimits.leaderEveryMs;
    this.#awayMs += Math.min(now - this.#countedAt, longest);
    this.#countedAt = now;
    this.#failedAt = now;
  }

  #tell(): void {
    const { text } = this;
    if (text === this.#told) return;
    this.#told = text;
    this.#options.onChange(this.leads, text);
  }
}
