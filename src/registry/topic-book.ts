// Caches the topics for one process: polled (registry-cache.ts), refreshed at once after a
// change hint. Reading never waits; while the registry is unavailable the last known topics stay in force.
// Pages are applied one by one. A topic with an unreadable record is left out and named once in the log: its
// jobs are held, all other topics go on.

import { messageOf } from '../core/errors.ts';
import { asKnown, type KnownTopic } from '../core/topic/topic.ts';
import type { ChangePlace, Registry, TopicChanges, TopicRecord } from '../ports/registry.ts';
import { StoreError } from '../ports/store-error.ts';
import type { Log } from '../telemetry/log.ts';
import { registryLimits } from './limits.ts';
import { RegistryCache } from './registry-cache.ts';

type Deleted = TopicChanges['deleted'];

/** Before every change. */
const start: ChangePlace = { revision: 0, name: null };

export class TopicBook extends RegistryCache {
  readonly #registry: Registry;
  readonly #log: Log;
  #topics = new Map<string, KnownTopic>();
  /** Names of #topics in order; null: not needed. */
  #order: NameOrder | null;
  /** Names of unreadable records. */
  readonly #unreadable = new Set<string>();
  readonly #listeners = new Set<(names: readonly string[]) => void>();
  /** Changes up to here are applied. */
  #place = start;
  #isKnown = false;

  /** `inOrder`: callers need the names in order. */
  constructor(registry: Registry, log: Log, { inOrder = false } = {}) {
    super({ registry, log, what: 'topics' });
    this.#registry = registry;
    this.#log = log;
    this.#order = inOrder ? new NameOrder([]) : null;
  }

  get(name: string): KnownTopic | undefined {
    return this.#topics.get(name);
  }

  /** Whether the stored record of this topic is unreadable. */
  isUnreadable(name: string): boolean {
    return this.#unreadable.has(name);
  }

  get unreadable(): ReadonlySet<string> {
    return this.#unreadable;
  }

  /** Reads an unknown topic from the registry: it may be newer than the last refresh. */
  async lookUp(name: string): Promise<KnownTopic | undefined> {
    const known = this.#topics.get(name);
    if (known !== undefined) return known;
    const found = await this.#registry.get(name);
    // A refresh during the call has already brought this topic, or its deletion.
    if (found === null || found.revision <= this.#place.revision) return this.#topics.get(name);
    const topic = asKnown(found);
    this.#put([topic], [], []);
    return topic;
  }

  /** The whole registry, or a copy of it, was read once. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  all(): IterableIterator<KnownTopic> {
    return this.#topics.values();
  }

  get size(): number {
    return this.#topics.size;
  }

  /** The names after `after` in order, at most `max`. */
  namesAfter(after: string, max: number): readonly string[] {
    this.#order ??= new NameOrder(this.#topics.keys());
    return this.#order.after(after, max);
  }

  /** The listener receives names of changed and removed topics. Returns the unsubscribe function. */
  onChange(listener: (names: readonly string[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Reads the changes since the last refresh. After a failure the next call continues after the last
   *  page. */
  override async refresh(): Promise<void> {
    for (;;) {
      const from = this.#place;
      const page = await this.#registry.changes(from);
      // A lower revision than before the call: the registry was restored, or replaced by a lagging replica.
      if (page.revision < from.revision && this.#place === from) return this.#readAll(from);
      // Refreshes may overtake each other: rows before #place are known, and may have changed since.
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

  /** If two refreshes detect this at once, the first one applies. */
  async #readAll(from: ChangePlace): Promise<void> {
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
    this.#log.error('registry: it went back to an earlier state; reading all topics again', undefined, {
      revision,
      known: from.revision,
    });
    const names = new Set([...this.#topics.keys(), ...topics.keys()]);
    this.#topics = topics;
    this.#order = order;
    this.#place = { revision, name: null };
    this.#isKnown = true;
    this.#notify([...names]);
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
        this.#reportUnreadable(record.name, error);
      }
    }
    return { topics, left };
  }

  #reportUnreadable(topic: string, error: StoreError): void {
    if (this.#unreadable.has(topic)) return;
    this.#unreadable.add(topic);
    const { unreadableNamed } = registryLimits;
    if (this.#unreadable.size > unreadableNamed + 1) return;
    if (this.#unreadable.size > unreadableNamed)
      this.#log.error(`registry: more than ${unreadableNamed} unreadable topics; not naming the others`);
    else
      this.#log.error(
        'registry: unreadable topic; its jobs are held until it is replaced (PUT) or removed',
        new Error(messageOf(error.cause)),
        { topic },
      );
  }

  /** `left`: names whose records are unreadable now */
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
      // Created again by an earlier change of this page.
      if ((this.#topics.get(name)?.revision ?? 0) > revision) continue;
      this.#unreadable.delete(name);
      if (this.#forget(name)) names.push(name);
    }
    if (names.length > 0) this.#notify(names);
  }

  #forget(name: string): boolean {
    if (!this.#topics.delete(name)) return false;
    this.#order?.remove(name);
    return true;
  }

  #notify(names: readonly string[]): void {
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

const pieceMax = 512;

/** Keeps names sorted while single names come and go, in pieces: moving 100,000 names per insert would be too
 *  slow. Invariant: every piece is sorted and not empty, and ends before the next begins. */
export class NameOrder {
  #pieces: string[][] = [];

  constructor(names: Iterable<string>) {
    const all = [...names].sort();
    for (let at = 0; at < all.length; at += pieceMax / 2) this.#pieces.push(all.slice(at, at + pieceMax / 2));
  }

  /** Adds a name that is not present. */
  add(name: string): void {
    if (this.#pieces.length === 0) {
      this.#pieces.push([name]);
      return;
    }
    const no = Math.min(this.#pieceOf(name), this.#pieces.length - 1);
    const piece = this.#pieces[no] as string[];
    piece.splice(firstFrom(piece, name), 0, name);
    if (piece.length > pieceMax)
      this.#pieces.splice(no, 1, piece.slice(0, pieceMax / 2), piece.slice(pieceMax / 2));
  }

  remove(name: string): void {
    const no = this.#pieceOf(name);
    const piece = this.#pieces[no] ?? [];
    const at = firstFrom(piece, name);
    if (piece[at] !== name) return;
    piece.splice(at, 1);
    if (piece.length === 0) this.#pieces.splice(no, 1);
  }

  /** At most `max` names greater than `name`. */
  after(name: string, max: number): string[] {
    const found: string[] = [];
    for (let no = this.#pieceOf(name); no < this.#pieces.length && found.length < max; no += 1) {
      const piece = this.#pieces[no] as string[];
      let at = firstFrom(piece, name);
      if (piece[at] === name) at += 1;
      found.push(...piece.slice(at, at + max - found.length));
    }
    return found;
  }

  /** Index of the first piece whose last name is `name` or greater. */
  #pieceOf(name: string): number {
    return firstWhere(this.#pieces.length, (no) => ((this.#pieces[no] as string[]).at(-1) as string) >= name);
  }
}

function firstFrom(piece: readonly string[], name: string): number {
  return firstWhere(piece.length, (at) => (piece[at] as string) >= name);
}

/** The smallest number from 0 for which `holds` is true; `end` if there is none. */
function firstWhere(end: number, holds: (no: number) => boolean): number {
  let [from, to] = [0, end];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (holds(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}
