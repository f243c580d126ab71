// Restores the state of topics whose removal was cut off: the process that set them offline for it has died.
// Invariant: the write is compare-and-set, so that dq-upkeep of any instance may do it. The age of a removal
// is measured by this process's monotonic clock: clocks of other machines do not matter.

import type { Registry } from '../ports/registry.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { Agent } from '../runtime/loop.ts';
import { monotonicNow } from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import { endRemoval } from '../use-cases/change-topic.ts';
import { upkeepLimits } from './limits.ts';

interface RemovalTimes {
  readonly everyMs: number;
  /** longer than a removal takes */
  readonly staleMs: number;
}

interface RemovalWatchOptions {
  readonly registry: Registry;
  readonly topics: Pick<TopicBook, 'all'>;
  readonly log: Log;
  readonly times?: RemovalTimes;
}

const usualTimes: RemovalTimes = {
  everyMs: upkeepLimits.removalCheckMs,
  staleMs: upkeepLimits.removalStaleMs,
};

export class RemovalWatch extends Agent {
  readonly #options: RemovalWatchOptions;
  readonly #staleMs: number;
  /** topic → the removal in progress, and monotonicNow() of its first sight */
  #seen = new Map<string, { readonly revision: number; readonly sinceMs: number }>();

  constructor(options: RemovalWatchOptions) {
    const { log, times = usualTimes } = options;
    super({
      log,
      failure: 'removal-watch: cannot restore the state of a topic',
      end: 'removal-watch: restores states of topics again',
      work: () => this.#look(),
      everyMs: times.everyMs,
    });
    this.#options = options;
    this.#staleMs = times.staleMs;
  }

  async #look(): Promise<void> {
    const { registry, topics, log } = this.#options;
    const now = monotonicNow();
    const seen = new Map<string, { readonly revision: number; readonly sinceMs: number }>();
    for (const { topic, removal, revision } of topics.all()) {
      if (removal === undefined) continue;
      const before = this.#seen.get(topic);
      seen.set(topic, before?.revision === revision ? before : { revision, sinceMs: now });
    }
    this.#seen = seen;
    for (const [topic, { sinceMs }] of seen) {
      if (now - sinceMs < this.#staleMs) continue;
      const state = await endRemoval(registry, topic);
      if (state !== null) log.notice('removal-watch: restored the state of a topic', { topic, state });
    }
  }
}
