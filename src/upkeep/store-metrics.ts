// Publishes stored jobs and topic events as metrics. Decides which topics have their own series: the first
// upkeepLimits.metricTopicsMax by creation, a choice that new topics and restarts do not change. All others
// are summed as `_other`, an invalid topic name. Series of deleted topics, or of topics no longer among the
// first, are dropped.

import { jobStates } from '../core/job.ts';
import type { KnownTopic } from '../core/topic/topic.ts';
import type { StateCounts, StoreHealth } from '../ports/job-store.ts';
import type { StatDelta } from '../ports/registry.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { otherLabel } from '../telemetry/metric-declarations.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { upkeepLimits } from './limits.ts';

export class StoreMetrics {
  readonly #topics: TopicBook;
  readonly #metrics: Metrics;
  readonly #max: number;
  /** null = to be computed again */
  #own: ReadonlySet<string> | null = null;
  /** creation time of the last of them */
  #youngest = Number.POSITIVE_INFINITY;

  constructor(topics: TopicBook, metrics: Metrics, max: number = upkeepLimits.metricTopicsMax) {
    this.#topics = topics;
    this.#metrics = metrics;
    this.#max = max;
    topics.onChange((names) => {
      if (names.some((name) => this.#mayChange(name))) this.#own = null;
    });
  }

  /** Adds the counters of any process. */
  counted(deltas: readonly StatDelta[]): void {
    for (const { topic, name, n } of deltas)
      this.#metrics.count('dq_topic_events_total', n, this.#labelOf(topic), name);
  }

  /** `oldestOverdueMs`: of active topics; null = no job waits */
  stored(topics: Readonly<Record<string, StateCounts>>, oldestOverdueMs: number | null): void {
    // Called regularly: drops the series of deleted topics even if no event is counted.
    this.#ownTopics();
    const byLabel = new Map<string, Record<(typeof jobStates)[number], number>>();
    const all = { delayed: 0, ready: 0, reserved: 0, dead: 0 };
    let orphaned = 0;
    for (const [topic, counts] of Object.entries(topics)) {
      const label = this.#labelOf(topic);
      const sums = byLabel.get(label) ?? { delayed: 0, ready: 0, reserved: 0, dead: 0 };
      byLabel.set(label, sums);
      for (const state of jobStates) {
        sums[state] += counts[state];
        all[state] += counts[state];
        if (this.#topics.get(topic) === undefined) orphaned += counts[state];
      }
    }
    const metrics = this.#metrics;
    metrics.set(
      'dq_jobs',
      jobStates.map((state) => [state, all[state]]),
    );
    metrics.set(
      'dq_topic_jobs',
      [...byLabel].flatMap(([label, sums]) => jobStates.map((state) => [label, state, sums[state]] as const)),
    );
    metrics.set('dq_jobs_orphaned', [[orphaned]]);
    metrics.set('dq_oldest_overdue_seconds', [[(oldestOverdueMs ?? 0) / 1_000]]);
  }

  /** null = the store does not answer */
  judged(health: StoreHealth | null): void {
    this.#metrics.set('dq_store_up', [[health?.ok === true ? 1 : 0]]);
    if (health?.servers !== undefined)
      this.#metrics.set(
        'dq_redis_up',
        health.servers.map(({ name, trouble }) => [name, trouble === null ? 1 : 0]),
      );
    if (health?.ok !== true) return;
    this.#metrics.set('dq_store_warnings', [[health.warnings.length]]);
    this.#metrics.set('dq_store_set_aside', [[health.quarantined ?? 0]]);
  }

  #labelOf(topic: string): string {
    return this.#ownTopics().has(topic) ? topic : otherLabel;
  }

  #ownTopics(): ReadonlySet<string> {
    if (this.#own !== null) return this.#own;
    this.#own = this.#firstRegistered();
    // The whole list, not the difference: series may come from an earlier incarnation of this process.
    if (this.#topics.isKnown)
      this.#metrics.keep('dq_topic_events_total', new Set([...this.#own, otherLabel]));
    return this.#own;
  }

  /** Whether this topic was removed from the first ones, or may belong to them now. */
  #mayChange(name: string): boolean {
    if (this.#own === null) return false;
    const topic = this.#topics.get(name);
    if (this.#own.has(name)) return topic === undefined;
    if (topic === undefined) return false;
    return this.#own.size < this.#max || topic.createdAt <= this.#youngest;
  }

  /** One pass: there may be 100,000 topics. */
  #firstRegistered(): ReadonlySet<string> {
    const first: KnownTopic[] = [];
    for (const topic of this.#topics.all()) {
      const last = first.at(-1);
      if (first.length >= this.#max && last !== undefined && byAge(topic, last) > 0) continue;
      const at = first.findIndex((other) => byAge(topic, other) < 0);
      first.splice(at < 0 ? first.length : at, 0, topic);
      if (first.length > this.#max) first.pop();
    }
    this.#youngest = first.at(-1)?.createdAt ?? Number.POSITIVE_INFINITY;
    return new Set(first.map(({ topic }) => topic));
  }
}

function byAge(a: KnownTopic, b: KnownTopic): number {
  return a.createdAt - b.createdAt || (a.topic < b.topic ? -1 : 1);
}
