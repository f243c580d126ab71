// The topics as one process knows them: a cache of the registry that is at most limits.registryPollMs old, refreshed at
// once when the registry hints a change. Reading never waits; with the registry away the last known topics stay in force.

import { limits } from '../core/limits.ts';
import { Loop } from '../core/loop.ts';
import type { Service } from '../core/service.ts';
import type { Topic } from '../core/topic.ts';
import type { Log } from '../telemetry/log.ts';
import type { Registry } from './registry.ts';

export class TopicBook implements Service {
  readonly #registry: Registry;
  readonly #topics = new Map<string, Topic>();
  readonly #listeners = new Set<(names: readonly string[]) => void>();
  readonly #loop: Loop;
  #revision = 0;
  #failing = false;
  #unsubscribe: (() => void) | null = null;

  constructor(registry: Registry, log: Log) {
    this.#registry = registry;
    this.#loop = new Loop({
      name: 'topic-book',
      step: async () => {
        await this.refresh();
        if (this.#failing) log.notice('topics are being refreshed again');
        this.#failing = false;
        return limits.registryPollMs;
      },
      onFailure: (error) => {
        if (!this.#failing) log.error('topics cannot be refreshed; the last known ones stay in force', error);
        this.#failing = true;
      },
      failureWaitMs: limits.registryPollMs,
    });
  }

  /** Has read the registry once, if it could be reached at all. */
  async start(): Promise<void> {
    this.#unsubscribe = this.#registry.onChange(() => this.#loop.wake());
    try {
      await this.refresh();
    } catch {
      // The loop tries again and logs; a process starts without its registry.
    }
    await this.#loop.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    this.#unsubscribe?.();
    await this.#loop.drain(deadlineMs);
  }

  get(name: string): Topic | undefined {
    return this.#topics.get(name);
  }

  /** Asks the registry once for a topic that this process does not know: it may be younger than the last refresh. */
  async lookUp(name: string): Promise<Topic | undefined> {
    const known = this.#topics.get(name);
    if (known !== undefined) return known;
    const found = await this.#registry.get(name);
    // Not newer than the last refresh: that one was while the question was under way, and has brought it or its deletion.
    if (found === null || found.revision <= this.#revision) return this.#topics.get(name);
    this.#put([found], []);
    return found;
  }

  all(): IterableIterator<Topic> {
    return this.#topics.values();
  }

  /** Told the names that changed or went. Returns the unsubscribe. */
  onChange(listener: (names: readonly string[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Reads what changed since the last time. */
  async refresh(): Promise<void> {
    const changes = await this.#registry.changes(this.#revision);
    this.#revision = changes.revision;
    this.#put(changes.topics, changes.deleted);
  }

  #put(topics: readonly Topic[], deleted: readonly string[]): void {
    const names: string[] = [];
    for (const topic of topics) {
      const known = this.#topics.get(topic.topic);
      if (known !== undefined && known.revision >= topic.revision) continue;
      this.#topics.set(topic.topic, topic);
      names.push(topic.topic);
    }
    for (const name of deleted) if (this.#topics.delete(name)) names.push(name);
    if (names.length > 0) for (const listener of this.#listeners) listener(names);
  }
}
