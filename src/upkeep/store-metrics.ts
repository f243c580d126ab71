// Publishes stored jobs and topic events as metrics. The first upkeepLimits.metricTopicsMax topics have their
// own series (first-topics.ts). All others are summed as `_other`, an invalid topic name. Series of deleted
// topics, or of topics no longer among the first, are dropped.

import { jobStates } from '../core/job.ts';
import type { StateCounts, StoreHealth } from '../ports/job-store.ts';
import type { StatDelta } from '../ports/registry.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { otherLabel } from '../telemetry/metric-declarations.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { FirstTopics } from './first-topics.ts';
import { upkeepLimits } from './limits.ts';

export class StoreMetrics {
  readonly #topics: TopicBook;
  readonly #metrics: Metrics;
  readonly #first: FirstTopics;
  /** those whose series were kept last */
  #kept: ReadonlySet<string> | null = null;

  constructor(topics: TopicBook, metrics: Metrics, max: number = upkeepLimits.metricTopicsMax) {
    this.#topics = topics;
    this.#metrics = metrics;
    this.#first = new FirstTopics(topics, max);
  }

  /** Adds the counters of any process. */
  counted(deltas: readonly StatDelta[]): void {
    for (const { topic, name, n } of deltas)
      this.#metrics.count('dq_topic_events_total', n, this.#labelOf(topic), name);
  }

  /** `oldestOverdueMs`: of the jobs that dq delivers or should have promoted; null = no job waits */
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
    const { names } = this.#first;
    if (names === this.#kept) return names;
    this.#kept = names;
    // The whole list, not the difference: series may come from an earlier incarnation of this process.
    if (this.#topics.isKnown) this.#metrics.keep('dq_topic_events_total', new Set([...names, otherLabel]));
    return names;
  }
}
