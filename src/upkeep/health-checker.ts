// Looks at the store, at each server it lies on and at how late jobs are, and says when trouble begins and when it is over; says
// aloud what of their configuration is dangerous, whenever it becomes so. Also ends a crash loop that
// the master has told of and tells of no more, and what was told of a daemon that ended by itself. Changes nothing.

import { formatDuration } from '../core/duration.ts';
import { reasonOf } from '../core/errors.ts';
import { type StoreAdmin, StoreError, type StoreHealth, type StoreServer } from '../ports/job-store.ts';
import { givenUp, givenUpDetail } from '../process/incident-files.ts';
import type { RoleName } from '../process/messages.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { Loop, onceIn } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import type { Log } from '../telemetry/log.ts';
import type { Incidents } from './alerts/incidents.ts';
import { upkeepLimits } from './limits.ts';
import type { StoreMetrics } from './store-metrics.ts';

export interface HealthTimes {
  readonly everyMs: number;
  /** trouble that is shorter is none */
  readonly afterMs: number;
  readonly lateMs: number;
  readonly crashWindowMs: number;
}

export interface HealthCheckerOptions {
  readonly admin: StoreAdmin;
  /** how many the store has */
  readonly partitions: () => number;
  readonly topics: TopicBook;
  readonly incidents: Incidents;
  readonly log: Log;
  /** what it finds is told there too */
  readonly metrics: StoreMetrics;
  readonly times: HealthTimes;
}

const store = { kind: 'store', about: '' } as const;
const redis = (name: string) => ({ kind: 'redis', about: name }) as const;
const late = { kind: 'late', about: '' } as const;
const crashLoop = (role: string) => ({ kind: 'crash_loop', about: role }) as const;

export class HealthChecker implements Service {
  readonly #options: HealthCheckerOptions;
  readonly #loop: Loop;
  /** performance.now() since when; null = it is well */
  #awaySince: number | null = null;
  #lateSince: number | null = null;
  /** performance.now() of the next look at how late jobs are */
  #latenessAt = 0;
  /** topics whose jobs were late on purpose when they were last looked at */
  #held: readonly string[] = [];
  /** server → performance.now() since when it has been out of work */
  readonly #downSince = new Map<string, number>();
  /** what was said aloud */
  #warnings: ReadonlySet<string> = new Set();
  /** role → performance.now() of the last word of its crash loop */
  readonly #crashes = new Map<string, number>();
  /** performance.now() of the start after which nobody has given up yet; null = nobody had before it */
  #aliveSince: number | null = null;

  constructor(options: HealthCheckerOptions) {
    this.#options = options;
    this.#loop = new Loop({
      name: 'health-checker',
      step: onceIn(options.times.everyMs, () => this.#check(), 'later'),
      onFailure: (error) => options.log.error('the health of this instance cannot be judged', error),
      failureWaitMs: options.times.everyMs,
    });
  }

  /** Told by the master at every further death of a role that dies again and again. */
  crashed(role: RoleName, how: string, reason: string): void {
    this.#crashes.set(role, performance.now());
    const detail = `dq-${role} ${how} and is started again and again; the last time: ${reason}`;
    // begin() never rejects: what cannot be kept is said in the log.
    void this.#options.incidents.begin(crashLoop(role), detail);
  }

  /** Told by the master before it ends everything. */
  async gaveUp(reason: string): Promise<void> {
    this.#aliveSince = null;
    await this.#options.incidents.begin(givenUp, givenUpDetail(reason));
  }

  async start(): Promise<void> {
    const now = performance.now();
    for (const { kind, about } of this.#options.incidents.open()) {
      if (kind === 'crash_loop') this.#crashes.set(about, now);
      else if (kind === 'given_up') this.#aliveSince = now;
    }
    await this.#loop.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await this.#loop.drain(deadlineMs);
  }

  async #check(): Promise<void> {
    await this.#endCrashLoops();
    if ((await this.#checkStore()) && performance.now() >= this.#latenessAt)
      await this.#checkLateness().catch((error: unknown) => {
        // A store that does not answer is told of by the check above.
        if (!(error instanceof StoreError)) throw error;
      });
  }

  async #endCrashLoops(): Promise<void> {
    for (const [role, at] of this.#crashes) {
      if (performance.now() - at < this.#options.times.crashWindowMs) continue;
      this.#crashes.delete(role);
      await this.#options.incidents.end(crashLoop(role), `dq-${role} stays up again`);
    }
    if (this.#aliveSince === null) return;
    if (performance.now() - this.#aliveSince < this.#options.times.crashWindowMs) return;
    this.#aliveSince = null;
    await this.#options.incidents.end(givenUp, 'the daemon stays up again');
  }

  /** Whether it answered. */
  async #checkStore(): Promise<boolean> {
    const { admin, incidents, metrics, times } = this.#options;
    let health: StoreHealth;
    try {
      health = await admin.health();
    } catch (error) {
      metrics.judged(null);
      this.#awaySince ??= performance.now();
      if (performance.now() - this.#awaySince >= times.afterMs)
        await incidents.begin(store, `the job store does not answer: ${reasonOf(error)}`);
      return false;
    }
    metrics.judged(health);
    this.#awaySince = null;
    if (health.ok) this.#warn(health.warnings);
    await this.#checkServers(health.servers ?? []);
    if (health.ok || health.servers !== undefined) await incidents.end(store, 'the job store is well again');
    else await incidents.begin(store, `the job store is in trouble: ${health.warnings.join('; ')}`);
    return true;
  }

  /** Each by itself: of several, the others work on. */
  async #checkServers(servers: readonly StoreServer[]): Promise<void> {
    const { incidents, times } = this.#options;
    const now = performance.now();
    for (const { name, trouble } of servers) {
      if (trouble === null) {
        this.#downSince.delete(name);
        await incidents.end(redis(name), `Redis at ${name} works again`);
        continue;
      }
      const since = this.#downSince.get(name) ?? now;
      this.#downSince.set(name, since);
      if (now - since >= times.afterMs) await incidents.begin(redis(name), `Redis at ${name} ${trouble}`);
    }
    const names = new Set(servers.map(({ name }) => name));
    for (const name of this.#downSince.keys()) if (!names.has(name)) this.#downSince.delete(name);
    for (const { kind, about } of incidents.open())
      if (kind === 'redis' && !names.has(about))
        await incidents.end(redis(about), `Redis at ${about} is in use no more`);
  }

  #warn(warnings: readonly string[]): void {
    const { log } = this.#options;
    const before = this.#warnings;
    this.#warnings = new Set(warnings);
    for (const warning of this.#warnings) if (!before.has(warning)) log.error(`warning: ${warning}`);
    for (const warning of before) if (!this.#warnings.has(warning)) log.notice(`no longer so: ${warning}`);
  }

  /** Of topics that are delivered: what is held because its topic is paused or unknown is late on purpose. */
  async #checkLateness(): Promise<void> {
    const { admin, metrics, partitions, times, topics } = this.#options;
    // A question to each partition, some ten commands of a Redis.
    const rounds = partitions() > upkeepLimits.fewPartitions ? upkeepLimits.latenessRounds : 1;
    const before = this.#held;
    let counts = await admin.counts(before);
    this.#held = Object.keys(counts.topics).filter((name) => topics.get(name)?.state !== 'active');
    // Mostly the same topics as before, and then once is enough.
    const isSame = this.#held.length === before.length && this.#held.every((name) => before.includes(name));
    if (!isSame) counts = await admin.counts(this.#held);
    // Half a round less: the one in which it is due begins a little sooner or later.
    this.#latenessAt = performance.now() + (rounds - 0.5) * times.everyMs;
    metrics.stored(counts.topics, counts.oldestOverdueMs);
    await this.#judgeLateness(counts.oldestOverdueMs ?? 0);
  }

  async #judgeLateness(lateMs: number): Promise<void> {
    const { incidents, times } = this.#options;
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
