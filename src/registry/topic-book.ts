// The topics as one process knows them: a cache of the registry that is at most registryLimits.registryPollMs old, refreshed at
// once when the registry hints a change. Reading never waits; with the registry away the last known topics stay in force.
// The registry is read page by page, and what a page brings is in force at once. A topic whose record cannot be read is left
// out and named once in the log: its jobs are held, and all other topics go on.

import { reasonOf } from '../core/errors.ts';
import { asKnown, type KnownTopic } from '../core/topic/topic.ts';
import { StoreError } from '../ports/job-store.ts';
import type { ChangePlace, Registry, TopicChanges, TopicRecord } from '../ports/registry.ts';
import type { Service } from '../runtime/service.ts';
import type { Log } from '../telemetry/log.ts';
import { registryLimits } from './limits.ts';
import { NameOrder } from './name-order.ts';
import { RegistryPoll } from './registry-poll.ts';

type Deleted = TopicChanges['deleted'];

/** Before everything. */
const start: ChangePlace = { revision: 0, name: null };

export class TopicBook implements Service {
  readonly #registry: Registry;
  readonly #log: Log;
  #topics = new Map<string, KnownTopic>();
  /** The names of #topics; null where they are not asked for in their order. */
  #order: NameOrder | null;
  /** Names whose record cannot be read. */
  readonly #unreadable = new Set<string>();
  readonly #listeners = new Set<(names: readonly string[]) => void>();
  readonly #poll: RegistryPoll;
  /** Everything up to here is known. */
  #place = start;
  #isKnown = false;

  /** `inOrder`: names are asked for in their order. */
  constructor(registry: Registry, log: Log, { inOrder = false } = {}) {
    this.#registry = registry;
    this.#log = log;
    this.#order = inOrder ? new NameOrder([]) : null;
    this.#poll = new RegistryPoll({ registry, log, what: 'topics', refresh: () => this.refresh() });
  }

  /** Has read the registry once, if it could be reached at all. */
  async start(): Promise<void> {
    await this.#poll.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await this.#poll.drain(deadlineMs);
  }

  get(name: string): KnownTopic | undefined {
    return this.#topics.get(name);
  }

  /** Whether the stored record of this topic cannot be read. */
  isUnreadable(name: string): boolean {
    return this.#unreadable.has(name);
  }

  /** Asks the registry once for a topic that this process does not know: it may be younger than the last refresh. */
  async lookUp(name: string): Promise<KnownTopic | undefined> {
    const known = this.#topics.get(name);
    if (known !== undefined) return known;
    const found = await this.#registry.get(name);
    // Not newer than the last refresh: that one was while the question was under way, and has brought it or its deletion.
    if (found === null || found.revision <= this.#place.revision) return this.#topics.get(name);
    const topic = asKnown(found);
    this.#put([topic], [], []);
    return topic;
  }

  /** The registry has been read once as a whole, or a copy of it. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Why the registry could not be read the last time; null = it could. */
  get failure(): unknown {
    return this.#poll.failure;
  }

  all(): IterableIterator<KnownTopic> {
    return this.#topics.values();
  }

  get size(): number {
    return this.#topics.size;
  }

  /** The names after `after`, at most `max`, in their order. */
  namesAfter(after: string, max: number): readonly string[] {
    this.#order ??= new NameOrder(this.#topics.keys());
    return this.#order.after(after, max);
  }

  /** Told the names that changed or went. Returns the unsubscribe. */
  onChange(listener: (names: readonly string[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Reads what changed since the last time. What a failure cuts off goes on from the last page that came. */
  async refresh(): Promise<void> {
    for (;;) {
      const from = this.#place;
      const page = await this.#registry.changes(from);
      // Less than it had told before it was asked: it was put back from a backup, or a server took over that had not heard all.
      if (page.revision < from.revision && this.#place === from) return this.#readAnew(from);
      // Two refreshes may overtake each other: what is behind the place already is known, and may be another by now.
      const isNew = (row: { readonly name: string; readonly revision: number }) => isAfter(row, this.#place);
      const fresh = page.topics.filter(isNew);
      const deleted = page.deleted.filter(isNew);
      const reached = page.next ?? { revision: page.revision, name: null };
      if (isLater(reached, this.#place)) this.#place = reached;
      if (page.next === null) this.#isKnown = true;
      const { topics, left } = this.#readable(fresh);
      this.#put(topics, deleted, left);
      if (page.next === null) return;
    }
  }

  /** Of two that find this out at once the first does it. */
  async #readAnew(from: ChangePlace): Promise<void> {
    const topics = new Map<string, KnownTopic>();
    const order = this.#order === null ? null : new NameOrder([]);
    this.#unreadable.clear();
    let place: ChangePlace | null = start;
    let revision = 0;
    while (place !== null) {
      const page: TopicChanges = await this.#registry.changes(place);
      for (const topic of this.#readable(page.topics).topics) {
        if (!topics.has(topic.topic)) order?.add(topic.topic);
        topics.set(topic.topic, topic);
      }
      for (const { name } of page.deleted) if (topics.delete(name)) order?.remove(name);
      ({ next: place, revision } = page);
    }
    if (this.#place !== from) return;
    this.#log.error('the registry has gone back to an earlier state: its topics are read anew', undefined, {
      revision,
      known: from.revision,
    });
    const names = new Set([...this.#topics.keys(), ...topics.keys()]);
    this.#topics = topics;
    this.#order = order;
    this.#place = { revision, name: null };
    this.#isKnown = true;
    this.#tell([...names]);
  }

  #readable(records: readonly TopicRecord[]): {
    readonly topics: readonly KnownTopic[];
    readonly left: readonly string[];
  } {
    const topics: KnownTopic[] = [];
    const left: string[] = [];
    for (const record of records) {
      try {
        topics.push(this.#registry.read(record));
        this.#unreadable.delete(record.name);
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        left.push(record.name);
        this.#noteUnreadable(record.name, error);
      }
    }
    return { topics, left };
  }

  #noteUnreadable(topic: string, error: StoreError): void {
    if (this.#unreadable.has(topic)) return;
    this.#unreadable.add(topic);
    const { unreadableNamed } = registryLimits;
    if (this.#unreadable.size > unreadableNamed + 1) return;
    if (this.#unreadable.size > unreadableNamed)
      this.#log.error(`more than ${unreadableNamed} stored topics cannot be read; the others are not named`);
    else
      this.#log.error(
        'a stored topic cannot be read; its jobs are held until it is replaced (PUT) or removed',
        new Error(reasonOf(error.cause)),
        { topic },
      );
  }

  /** `left`: names whose records cannot be read any more */
  #put(topics: readonly KnownTopic[], deleted: Deleted, left: readonly string[]): void {
    const names = left.filter((name) => this.#forget(name));
    for (const topic of topics) {
      const { topic: name } = topic;
      const known = this.#topics.get(name);
      if (known !== undefined && known.revision >= topic.revision) continue;
      this.#topics.set(name, topic);
      if (known === undefined) this.#order?.add(name);
      names.push(name);
    }
    for (const { name, revision } of deleted) {
      // Created again by a change that came first.
      if ((this.#topics.get(name)?.revision ?? 0) > revision) continue;
      this.#unreadable.delete(name);
      if (this.#forget(name)) names.push(name);
    }
    if (names.length > 0) this.#tell(names);
  }

  #forget(name: string): boolean {
    if (!this.#topics.delete(name)) return false;
    this.#order?.remove(name);
    return true;
  }

  #tell(names: readonly string[]): void {
    for (const listener of this.#listeners) listener(names);
  }
}

function isAfter(row: { readonly name: string; readonly revision: number }, place: ChangePlace): boolean {
  if (row.revision !== place.revision) return row.revision > place.revision;
  return place.name !== null && row.name > place.name;
}

function isLater(a: ChangePlace, b: ChangePlace): boolean {
  if (a.revision !== b.revision) return a.revision > b.revision;
  return b.name !== null && (a.name === null || a.name > b.name);
}
