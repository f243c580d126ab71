// Checks the store, each Redis and the lateness of jobs, and records the start and the end of a failure state
// as incidents. Logs dangerous settings of the servers when they appear and when they are gone. Ends the
// incident of a crash loop that the master reports no more, and of a daemon that gave up. Changes nothing in
// the store.

import { heldText } from '../core/capacity-reasons.ts';
import { formatDuration } from '../core/duration.ts';
import { messageOf } from '../core/errors.ts';
import { givenUp, givenUpDetail } from '../core/incident.ts';
import type { Counts, StoreAdmin, StoreHealth, StoreServer } from '../ports/job-store.ts';
import { StoreError } from '../ports/store-error.ts';
import type { RoleName } from '../process/messages.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { Agent } from '../runtime/loop.ts';
import { monotonicNow } from '../runtime/time.ts';
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
  /** lateness of jobs of pull topics that is an incident; Infinity = none is */
  readonly pullLateMs: number;
}

const store = { kind: 'store', about: '' } as const;
const redis = (name: string) => ({ kind: 'redis', about: name }) as const;
const crashLoop = (role: string) => ({ kind: 'crash_loop', about: role }) as const;

/** Jobs whose lateness is judged together. */
interface Lateness {
  readonly incident: { readonly kind: 'late'; readonly about: '' | 'pull' };
  readonly begun: string;
  readonly ended: string;
  /** monotonicNow() of the first check in a row that found them late; null: the last one did not */
  since: number | null;
  /** of the oldest jobs of this lateness */
  readonly topics: Set<string>;
}

/** Topics whose jobs dq does not call. `held`: the topic is paused, offline, unknown or unreadable. */
type UncalledTopics = Readonly<Record<'clients' | 'held', readonly string[]>>;

type Waiting = Pick<Counts, 'oldestOverdueMs' | 'oldest'>;
const noneWaits: Waiting = { oldestOverdueMs: null, oldest: [] };

export class HealthChecker extends Agent {
  readonly #options: HealthCheckerOptions;
  /** monotonicNow() of the first failure in a row; null = the last check succeeded */
  #unavailableSince: number | null = null;
  readonly #delivered: Lateness = {
    incident: { kind: 'late', about: '' },
    begun: 'jobs are late',
    ended: 'jobs are delivered in time again',
    since: null,
    topics: new Set(),
  };
  readonly #pulled: Lateness = {
    incident: { kind: 'late', about: 'pull' },
    begun: 'jobs of pull topics wait for a client',
    ended: 'jobs of pull topics wait no longer than alerts.pullLate',
    since: null,
    topics: new Set(),
  };
  /** monotonicNow() of the next check of the lateness */
  #latenessAt = 0;
  /** topics with jobs at the last check */
  #topics: UncalledTopics = { clients: [], held: [] };
  /** server → monotonicNow() of its first failure in a row */
  readonly #downSince = new Map<string, number>();
  /** logged and still in effect */
  #warnings: ReadonlySet<string> = new Set();
  /** role → monotonicNow() of the last report of its crash loop */
  readonly #crashes = new Map<string, number>();
  /** monotonicNow() of this start, if the daemon gave up before it; null = it did not */
  #aliveSince: number | null = null;

  constructor(options: HealthCheckerOptions) {
    const { log, times } = options;
    super({
      log,
      failure: 'health-checker: cannot check this instance',
      end: 'health-checker: checks this instance again',
      work: () => this.#check(),
      everyMs: times.everyMs,
      first: 'later',
      failureWaitMs: times.everyMs,
    });
    this.#options = options;
  }

  /** Called at every further death of a role in a crash loop. */
  crashed(role: RoleName, how: string, reason: string): void {
    this.#crashes.set(role, monotonicNow());
    const detail = `dq-${role} ${how} and is started again and again; the last time: ${reason}`;
    // begin() never rejects: it logs a file that cannot be written.
    void this.#options.incidents.begin(crashLoop(role), detail);
  }

  /** Called before the master ends the daemon. */
  async gaveUp(reason: string): Promise<void> {
    this.#aliveSince = null;
    await this.#options.incidents.begin(givenUp, givenUpDetail(reason));
  }

  override async start(): Promise<void> {
    const now = monotonicNow();
    for (const { kind, about } of this.#options.incidents.open()) {
      if (kind === 'crash_loop') this.#crashes.set(about, now);
      else if (kind === 'given_up') this.#aliveSince = now;
    }
    await super.start();
  }

  async #check(): Promise<void> {
    await this.#endCrashLoops();
    if ((await this.#checkStore()) && monotonicNow() >= this.#latenessAt)
      await this.#checkLateness().catch((error: unknown) => {
        // #checkStore reports a store that does not answer.
        if (!(error instanceof StoreError)) throw error;
      });
  }

  async #endCrashLoops(): Promise<void> {
    for (const [role, at] of this.#crashes) {
      if (monotonicNow() - at < this.#options.times.crashWindowMs) continue;
      this.#crashes.delete(role);
      await this.#options.incidents.end(crashLoop(role), `dq-${role} stays up again`);
    }
    if (this.#aliveSince === null) return;
    if (monotonicNow() - this.#aliveSince < this.#options.times.crashWindowMs) return;
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
      this.#unavailableSince ??= monotonicNow();
      if (monotonicNow() - this.#unavailableSince >= times.afterMs)
        await incidents.begin(store, `the job store does not answer: ${messageOf(error)}`);
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
    const now = monotonicNow();
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

  /** Judges the jobs that dq delivers, and the due delayed ones of pull topics, which a timer should have
   *  promoted. Ready ones of pull topics wait for a client: they have a limit of their own. Jobs of paused,
   *  offline and unknown topics are late on purpose. */
  async #checkLateness(): Promise<void> {
    const { admin, metrics, partitions, pullLateMs, series, times } = this.#options;
    // counts() asks each partition: some ten commands to a Redis.
    const rounds = partitions() > upkeepLimits.fewPartitions ? upkeepLimits.latenessRounds : 1;
    const previous = this.#topics;
    let counts = await admin.counts(previous.held, previous.clients);
    this.#topics = this.#uncalledOf(Object.keys(counts.topics));
    const { clients, held } = this.#topics;
    // Usually the same topics as before: then one count is enough.
    const isSame = isSameSet(held, previous.held) && isSameSet(clients, previous.clients);
    if (!isSame) counts = await admin.counts(held, clients);
    // Half a round less: rounds begin a little early or late.
    this.#latenessAt = monotonicNow() + (rounds - 0.5) * times.everyMs;
    metrics.stored(counts.topics, counts.oldestOverdueMs);
    // Without the jobs of a silent shard the sums would fall.
    if (counts.missing === undefined) series.stored(counts.topics, counts.oldestOverdueMs);
    // Without deliveries jobs are late on purpose: that neither begins nor ends an incident.
    if (times.lateMs !== Number.POSITIVE_INFINITY)
      await this.#judge(this.#delivered, counts, counts.topics, times.lateMs);
    const isJudged = pullLateMs !== Number.POSITIVE_INFINITY && clients.length > 0;
    const waiting = isJudged ? await admin.countsOf(clients) : noneWaits;
    await this.#judge(this.#pulled, waiting, counts.topics, pullLateMs);
  }

  #uncalledOf(names: readonly string[]): UncalledTopics {
    const found = { clients: [] as string[], held: [] as string[] };
    for (const name of names) {
      const topic = this.#options.topics.get(name);
      // An unreadable topic, too, whose state and delivery are unknown: /readyz warns of it, and its jobs
      // would hide a later lateness of other topics.
      if (topic?.state !== 'active') found.held.push(name);
      else if (topic.delivery === 'pull') found.clients.push(name);
    }
    return found;
  }

  async #judge(
    jobs: Lateness,
    { oldestOverdueMs, oldest: [oldest] }: Waiting,
    stored: Counts['topics'],
    limitMs: number,
  ): Promise<void> {
    const { incidents, times } = this.#options;
    const lateMs = oldestOverdueMs ?? 0;
    if (oldest === undefined || lateMs < limitMs) {
      jobs.since = null;
      // Half: values that swing about the limit are one incident.
      if (lateMs < limitMs / 2) {
        await incidents.end(jobs.incident, this.#endOf(jobs, stored));
        jobs.topics.clear();
      }
      return;
    }
    if (jobs.topics.size < upkeepLimits.lateTopicsMax) jobs.topics.add(oldest.topic);
    jobs.since ??= monotonicNow();
    if (monotonicNow() - jobs.since < times.afterMs) return;
    const text = formatDuration(Math.round(lateMs / 1_000) * 1_000);
    const detail = `${jobs.begun}: the oldest was due ${text} ago (topic ${oldest.topic})`;
    const waiting = waitingIn(stored, oldest.topic);
    await incidents.begin(jobs.incident, detail, { oldest, waiting });
  }

  #stateOf(name: string): Parameters<typeof heldText>[1] {
    const { topics } = this.#options;
    return topics.get(name)?.state ?? (topics.isUnreadable(name) ? 'unreadable' : 'removed');
  }

  /** Jobs that nothing calls any more were not delivered in time. */
  #endOf({ incident, ended, topics }: Lateness, stored: Counts['topics']): string {
    const begun = this.#options.incidents
      .open()
      .find(({ kind, about }) => kind === incident.kind && about === incident.about);
    const names = new Set([...topics, ...(begun?.oldest === undefined ? [] : [begun.oldest.topic])]);
    const held = this.#uncalledOf([...names])
      .held.filter((name) => waitingIn(stored, name) > 0)
      .map((name) => heldText(name, this.#stateOf(name), waitingIn(stored, name)));
    return [...(held.length < names.size || held.length === 0 ? [ended] : []), ...held].join('; ');
  }
}

/** Jobs of a topic that wait for a call. */
export function waitingIn(stored: Counts['topics'], topic: string): number {
  // Not an inherited member: a topic can be called `constructor`.
  const counts = Object.hasOwn(stored, topic) ? stored[topic] : undefined;
  return counts === undefined ? 0 : counts.delayed + counts.ready;
}

function isSameSet(a: readonly string[], b: readonly string[]): boolean {
  const names = new Set(a);
  return a.length === b.length && b.every((name) => names.has(name));
}
