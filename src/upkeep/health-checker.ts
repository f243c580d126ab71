// Checks the store, each Redis and the lateness of jobs, and records the start and the end of a failure state
// as incidents. Logs dangerous settings of the servers when they appear and when they are gone. Ends the
// incident of a crash loop that the master reports no more, and of a daemon that gave up. Changes nothing in
// the store.

import { formatDuration } from '../core/duration.ts';
import { reasonOf } from '../core/errors.ts';
import type { StoreAdmin, StoreHealth, StoreServer } from '../ports/job-store.ts';
import { StoreError } from '../ports/store-error.ts';
import { givenUp, givenUpDetail } from '../process/incident-files.ts';
import type { RoleName } from '../process/messages.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { Loop, onceIn } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import type { Log } from '../telemetry/log.ts';
import type { Incidents } from './alerts/incidents.ts';
import { upkeepLimits } from './limits.ts';
import type { SeriesRecorder } from './series-recorder.ts';
import type { StoreMetrics } from './store-metrics.ts';

export interface HealthTimes {
  readonly everyMs: number;
  /** least duration of a failure state that is an incident */
  readonly afterMs: number;
  readonly lateMs: number;
  readonly crashWindowMs: number;
}

export interface HealthCheckerOptions {
  readonly admin: StoreAdmin;
  readonly partitions: () => number;
  readonly topics: TopicBook;
  readonly incidents: Incidents;
  readonly log: Log;
  readonly metrics: StoreMetrics;
  readonly series: Pick<SeriesRecorder, 'stored'>;
  readonly times: HealthTimes;
}

const store = { kind: 'store', about: '' } as const;
const redis = (name: string) => ({ kind: 'redis', about: name }) as const;
const late = { kind: 'late', about: '' } as const;
const crashLoop = (role: string) => ({ kind: 'crash_loop', about: role }) as const;

export class HealthChecker implements Service {
  readonly #options: HealthCheckerOptions;
  readonly #loop: Loop;
  /** performance.now() of the first failure in a row; null = the last check succeeded */
  #unavailableSince: number | null = null;
  #lateSince: number | null = null;
  /** performance.now() of the next check of the lateness */
  #latenessAt = 0;
  /** topics that were not active at the last check: their jobs are late on purpose */
  #held: readonly string[] = [];
  /** server → performance.now() of its first failure in a row */
  readonly #downSince = new Map<string, number>();
  /** logged and still in effect */
  #warnings: ReadonlySet<string> = new Set();
  /** role → performance.now() of the last report of its crash loop */
  readonly #crashes = new Map<string, number>();
  /** performance.now() of this start, if the daemon gave up before it; null = it did not */
  #aliveSince: number | null = null;

  constructor(options: HealthCheckerOptions) {
    this.#options = options;
    this.#loop = new Loop({
      step: onceIn(options.times.everyMs, () => this.#check(), 'later'),
      onFailure: (error) => options.log.error('health-checker: cannot check this instance', error),
      failureWaitMs: options.times.everyMs,
    });
  }

  /** Called at every further death of a role in a crash loop. */
  crashed(role: RoleName, how: string, reason: string): void {
    this.#crashes.set(role, performance.now());
    const detail = `dq-${role} ${how} and is started again and again; the last time: ${reason}`;
    // begin() never rejects: it logs a file that cannot be written.
    void this.#options.incidents.begin(crashLoop(role), detail);
  }

  /** Called before the master ends the daemon. */
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
        // #checkStore reports a store that does not answer.
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

  /** Returns whether the store answered. */
  async #checkStore(): Promise<boolean> {
    const { admin, incidents, metrics, times } = this.#options;
    let health: StoreHealth;
    try {
      health = await admin.health();
    } catch (error) {
      metrics.judged(null);
      this.#unavailableSince ??= performance.now();
      if (performance.now() - this.#unavailableSince >= times.afterMs)
        await incidents.begin(store, `the job store does not answer: ${reasonOf(error)}`);
      return false;
    }
    metrics.judged(health);
    this.#unavailableSince = null;
    if (health.ok) this.#warn(health.warnings);
    await this.#checkServers(health.servers ?? []);
    if (health.ok || health.servers !== undefined) await incidents.end(store, 'the job store works again');
    else await incidents.begin(store, `the job store has failed: ${health.warnings.join('; ')}`);
    return true;
  }

  /** Each server has its own incident: the other shards work on. */
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
        await incidents.end(redis(about), `Redis at ${about} is no longer in use`);
  }

  #warn(warnings: readonly string[]): void {
    const { log } = this.#options;
    const previous = this.#warnings;
    this.#warnings = new Set(warnings);
    for (const warning of this.#warnings) if (!previous.has(warning)) log.error(`warning: ${warning}`);
    for (const warning of previous)
      if (!this.#warnings.has(warning)) log.notice(`warning is over: ${warning}`);
  }

  /** Counts active topics only: jobs of paused, offline and unknown topics are late on purpose. */
  async #checkLateness(): Promise<void> {
    const { admin, metrics, partitions, series, times, topics } = this.#options;
    // counts() asks each partition: some ten commands to a Redis.
    const rounds = partitions() > upkeepLimits.fewPartitions ? upkeepLimits.latenessRounds : 1;
    const previous = this.#held;
    let counts = await admin.counts(previous);
    this.#held = Object.keys(counts.topics).filter((name) => topics.get(name)?.state !== 'active');
    // Usually the same topics as before: then one count is enough.
    const isSame =
      this.#held.length === previous.length && this.#held.every((name) => previous.includes(name));
    if (!isSame) counts = await admin.counts(this.#held);
    // Half a round less: rounds begin a little early or late.
    this.#latenessAt = performance.now() + (rounds - 0.5) * times.everyMs;
    metrics.stored(counts.topics, counts.oldestOverdueMs);
    // Without the jobs of a silent shard the sums would fall.
    if (counts.missing === undefined) series.stored(counts.topics, counts.oldestOverdueMs);
    await this.#judgeLateness(counts.oldestOverdueMs ?? 0);
  }

  async #judgeLateness(lateMs: number): Promise<void> {
    const { incidents, times } = this.#options;
    // Without deliveries jobs are late on purpose: that neither begins nor ends an incident.
    if (times.lateMs === Number.POSITIVE_INFINITY) return;
    if (lateMs < times.lateMs) {
      this.#lateSince = null;
      // Half: values that swing about the limit are one incident.
      if (lateMs < times.lateMs / 2) await incidents.end(late, 'jobs are delivered in time again');
      return;
    }
    this.#lateSince ??= performance.now();
    if (performance.now() - this.#lateSince < times.afterMs) return;
    const text = formatDuration(Math.round(lateMs / 1_000) * 1_000);
    await incidents.begin(late, `jobs are late: the oldest was due ${text} ago`);
  }
}
