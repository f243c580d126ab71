// Looks at the store and at how late jobs are, and says when trouble begins and when it is over. Also ends a crash loop that
// the master has told of and tells of no more. Changes nothing.

import { formatDuration } from '../core/duration.ts';
import { reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { Loop } from '../core/loop.ts';
import type { Service } from '../core/service.ts';
import type { RoleName } from '../process/messages.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import type { StoreAdmin } from '../store/job-store.ts';
import type { Log } from '../telemetry/log.ts';
import type { Incidents } from './incidents.ts';

export interface HealthTimes {
  readonly everyMs: number;
  /** trouble that is shorter is none */
  readonly afterMs: number;
  readonly lateMs: number;
  readonly crashWindowMs: number;
}

export interface HealthCheckerOptions {
  readonly admin: StoreAdmin;
  readonly topics: TopicBook;
  readonly incidents: Incidents;
  readonly log: Log;
  readonly times: HealthTimes;
}

const store = { kind: 'store', about: '' } as const;
const late = { kind: 'late', about: '' } as const;
const crashLoop = (role: string) => ({ kind: 'crash_loop', about: role }) as const;

export class HealthChecker implements Service {
  readonly #options: HealthCheckerOptions;
  readonly #loop: Loop;
  #nextAt = 0;
  /** performance.now() since when; null = it is well */
  #awaySince: number | null = null;
  #lateSince: number | null = null;
  /** role → performance.now() of the last word of its crash loop */
  readonly #crashes = new Map<string, number>();

  constructor(options: HealthCheckerOptions) {
    this.#options = options;
    this.#loop = new Loop({
      name: 'health-checker',
      step: () => this.#step(),
      onFailure: (error) => options.log.error('the health of this instance cannot be judged', error),
      failureWaitMs: options.times.everyMs,
    });
  }

  /** Told by the master at every further death of a role that dies again and again. */
  crashed(role: RoleName, reason: string): void {
    this.#crashes.set(role, performance.now());
    const { crashLoopFailures, crashLoopWindowMs } = limits;
    const detail = `dq-${role} died ${crashLoopFailures} times within ${crashLoopWindowMs / 1_000} s and is started again and again; the last time: ${reason}`;
    // begin() never rejects: what cannot be kept is said in the log.
    void this.#options.incidents.begin(crashLoop(role), detail);
  }

  async start(): Promise<void> {
    for (const { kind, about } of this.#options.incidents.open())
      if (kind === 'crash_loop') this.#crashes.set(about, performance.now());
    this.#nextAt = performance.now() + this.#options.times.everyMs;
    await this.#loop.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await this.#loop.drain(deadlineMs);
  }

  /** The loop turns at least once a second; the work is done once in everyMs. */
  async #step(): Promise<number> {
    const waitMs = this.#nextAt - performance.now();
    if (waitMs > 0) return waitMs;
    const { everyMs } = this.#options.times;
    this.#nextAt = performance.now() + everyMs;
    await this.#endCrashLoops();
    if (await this.#checkStore()) await this.#checkLateness();
    return everyMs;
  }

  async #endCrashLoops(): Promise<void> {
    for (const [role, at] of this.#crashes) {
      if (performance.now() - at < this.#options.times.crashWindowMs) continue;
      this.#crashes.delete(role);
      await this.#options.incidents.end(crashLoop(role), `dq-${role} stays up again`);
    }
  }

  /** Whether it answered. */
  async #checkStore(): Promise<boolean> {
    const { admin, incidents, times } = this.#options;
    try {
      const health = await admin.health();
      this.#awaySince = null;
      if (health.ok) await incidents.end(store, 'the job store is well again');
      else await incidents.begin(store, `the job store is in trouble: ${health.warnings.join('; ')}`);
      return true;
    } catch (error) {
      this.#awaySince ??= performance.now();
      if (performance.now() - this.#awaySince >= times.afterMs)
        await incidents.begin(store, `the job store does not answer: ${reasonOf(error)}`);
      return false;
    }
  }

  /** Of topics that are delivered: what is held because its topic is paused or unknown is late on purpose. */
  async #checkLateness(): Promise<void> {
    const { admin, incidents, topics, times } = this.#options;
    const { topics: stored } = await admin.counts();
    const held = Object.keys(stored).filter((name) => topics.get(name)?.state !== 'active');
    const lateMs = (await admin.counts(held)).oldestReadyMs ?? 0;
    if (lateMs < times.lateMs) {
      this.#lateSince = null;
      // Half: what swings about the limit is one trouble.
      if (lateMs < times.lateMs / 2) await incidents.end(late, 'jobs are delivered in time again');
      return;
    }
    this.#lateSince ??= performance.now();
    if (performance.now() - this.#lateSince < times.afterMs) return;
    const text = formatDuration(Math.round(lateMs / 1_000) * 1_000);
    await incidents.begin(late, `jobs are late: the one that has waited longest was due ${text} ago`);
  }
}
