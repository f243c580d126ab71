// The topics as one process knows them: a cache of the registry that is at most limits.registryPollMs old, refreshed at
// once when the registry hints a change. Reading never waits; with the registry away the last known topics stay in force.

import type { Service } from '../core/service.ts';
import type { Topic } from '../core/topic.ts';
import type { Log } from '../telemetry/log.ts';
import type { Registry } from './registry.ts';
import { RegistryPoll } from './registry-poll.ts';

export class TopicBook implements Service {
  readonly #registry: Registry;
  readonly #log: Log;
  readonly #topics = new Map<string, Topic>();
  readonly #listeners = new Set<(names: readonly string[]) => void>();
  readonly #poll: RegistryPoll;
  #revision = 0;
  #isKnown = false;

  constructor(registry: Registry, log: Log) {
    this.#registry = registry;
    this.#log = log;
    this.#poll = new RegistryPoll({ registry, log, what: 'topics', refresh: () => this.refresh() });
  }

  /** Has read the registry once, if it could be reached at all. */
  async start(): Promise<void> {
    await this.#poll.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await this.#poll.drain(deadlineMs);
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

  /** The registry has been read once, or a copy of it. */
  get isKnown(): boolean {
    return this.#isKnown;
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
    const since = this.#revision;
    const changes = await this.#registry.changes(since);
    // Less than it had told before it was asked: it was put back from a backup, or a server took over that had not heard all.
    if (changes.revision < since && this.#revision === since) return this.#readAnew(since);
    // Two refreshes may overtake each other; what the older one says was deleted may be there again.
    if (changes.revision < this.#revision) return;
    this.#revision = changes.revision;
    this.#isKnown = true;
    this.#put(changes.topics, changes.deleted);
  }

  /** Of two that find this out at once the first does it. */
  async #readAnew(since: number): Promise<void> {
    const { revision, topics } = await this.#registry.changes(0);
    if (this.#revision !== since) return;
    this.#log.error('the registry has gone back to an earlier state: its topics are read anew', undefined, {
      revision,
      known: since,
    });
    const names = [...this.#topics.keys()];
    this.#topics.clear();
    this.#revision = revision;
    this.#put(topics, []);
    for (const listener of this.#listeners) listener(names);
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
