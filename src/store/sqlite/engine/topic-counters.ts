// Keeps in memory what operations need without reading the file: topic names and numbers, job counts, the
// rings, the earliest delayed job, the sequence of versions and tokens. Reads no job.
// Invariant: outside a transaction it equals the file. Changes are staged; a rollback undoes them; flush()
// writes the durable ones in the transaction that made them.

import { priorityCodes } from '../../../core/stored-codes.ts';
import type { ReserveRequest } from '../../../ports/job-store.ts';
import { type Database, rowsBy } from '../../../runtime/database.ts';
import { randomInt } from '../../../runtime/time.ts';
import { type DealPlan, planDeals, type ReadyTopic } from '../../wheel.ts';
import { delayed, ready, type StateCode } from '../file/schema.ts';
import { sqliteLimits } from '../limits.ts';
import { Ring, RingView, type RingViews } from './ring.ts';

/** Index of a count: priority × 4 + state. */
const slots = 12;
type Rings = readonly [Ring, Ring, Ring];

/** State to roll back to; `undo` and `topics` are lengths, `rings` the rings' own savepoints. */
export interface Savepoint {
  readonly seq: number;
  readonly wheel: number;
  readonly head: number | null | undefined;
  readonly rings: readonly number[];
  readonly undo: number;
  readonly topics: number;
  readonly readyHint: boolean;
  readonly dueHint: boolean;
}

const statementsOf = (db: Database) => ({
  addTopic: db.prepare('INSERT INTO topic(no, name) VALUES (?, ?)'),
  putTally: db.prepare(
    'INSERT INTO tally(topic, prio, state, n) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = excluded.n',
  ),
  putMeta: db.prepare('UPDATE meta SET v = ? WHERE k = ?'),
  readHead: rowsBy(db, 'SELECT due FROM job WHERE state = 0 ORDER BY due LIMIT 1'),
});

export class TopicCounters {
  readonly #names: string[] = [''];
  readonly #numbers = new Map<string, number>();
  readonly #tallies: number[][] = [[]];
  readonly #totals = [0, 0, 0, 0];
  #seq = 0;
  #wheel = 0;
  /** ready topics of each priority */
  readonly #rings: Rings = [new Ring(), new Ring(), new Ring()];
  /** dueAt of the earliest delayed job; null: no delayed job; undefined: unknown, read the file */
  #head: number | null | undefined;
  #readyHint = false;
  #dueHint = false;
  /** Triples topic, slot, change; latest last. */
  readonly #undo: number[] = [];
  /** topic × slots + slot of tallies that are not in the file yet */
  readonly #dirty = new Set<number>();
  #numbersDirty = false;
  /** Numbers were skipped, and the file does not have the last of them. */
  #hasSkipped = false;
  readonly #monotonic: () => number;
  readonly #sql: ReturnType<typeof statementsOf>;

  constructor(db: Database, monotonic: () => number) {
    this.#monotonic = monotonic;
    this.#sql = statementsOf(db);
    for (const [no, name] of rows(db, 'SELECT no, name FROM topic ORDER BY no') as [number, string][])
      this.#addName(no, name);
    for (const [topic, prio, state, n] of rows(db, 'SELECT topic, prio, state, n FROM tally') as [
      number,
      number,
      number,
      number,
    ][]) {
      this.#shift(topic, prio * 4 + state, n);
      if (state === ready && n > 0) this.#rings[prio as 0 | 1 | 2].add(topic);
    }
    for (const ring of this.#rings) ring.commit();
    for (const [k, v] of rows(db, 'SELECT k, v FROM meta') as [string, number][]) {
      if (k === 'seq') this.#seq = v;
      if (k === 'wheel') this.#wheel = v;
    }
  }

  // Topics

  topicNumber(name: string): number | undefined {
    return this.#numbers.get(name);
  }

  topicName(no: number): string {
    const name = this.#names[no];
    if (name === undefined) throw new Error(`unknown topic number ${no}`);
    return name;
  }

  /** Adds an unknown topic: only inside a transaction. */
  ensureTopicNumber(name: string): number {
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    const no = this.#names.length;
    this.#sql.addTopic.run(no, name);
    this.#addName(no, name);
    return no;
  }

  #addName(no: number, name: string): void {
    this.#names[no] = name;
    this.#numbers.set(name, no);
    this.#tallies[no] = new Array<number>(slots).fill(0);
  }

  // Versions, tokens, deaths, moments

  /** The next number, above all before; nowMs by the storage clock, whose µs are not known: those of the
   *  monotonic clock are as good a chance against a number that a backup undid in the same ms. */
  nextNumber(nowMs: number): number {
    const us = Math.floor((this.#monotonic() % 1) * 1_000);
    this.#seq = Math.max(this.#seq + 1, nowMs * 1_000 + us);
    this.#numbersDirty = true;
    return this.#seq;
  }

  /** At the open. Numbers that a power cut or a backup undid must not return: a client may still show the
   *  lease of one. The clock is beyond them, unless it was set back. The distance is random, because the lost
   *  ones may have been drawn after such an open too. */
  skipLostNumbers(nowMs: number): void {
    if (this.#seq < nowMs * 1_000) return;
    this.#seq += randomInt(sqliteLimits.lostNumbersMax, sqliteLimits.skippedNumbersMax);
    this.#hasSkipped = true;
  }

  /** The next transaction is on disk before its reply, so that no number is skipped twice from one value. */
  get mustSync(): boolean {
    return this.#hasSkipped;
  }

  /** The last one; later ones are higher. */
  get lastNumber(): number {
    return this.#seq;
  }

  // Counts

  /** Adds `change` jobs (negative: removes). */
  count(topic: number, prio: number, state: StateCode, change: number): void {
    const slot = prio * 4 + state;
    this.#undo.push(topic, slot, change);
    this.#dirty.add(topic * slots + slot);
    const now = this.#shift(topic, slot, change);
    if (state !== ready) return;
    if (now === 0) this.#rings[prio as 0 | 1 | 2].delete(topic);
    else if (now === change) {
      this.#rings[prio as 0 | 1 | 2].add(topic);
      this.#readyHint = true;
    }
  }

  #shift(topic: number, slot: number, change: number): number {
    const tally = this.#tallies[topic] as number[];
    const now = (tally[slot] as number) + change;
    if (now < 0) throw new Error(`negative job count: topic ${topic}, slot ${slot}`);
    tally[slot] = now;
    this.#totals[slot & 3] = (this.#totals[slot & 3] as number) + change;
    return now;
  }

  countOf(topic: number, prio: number, state: StateCode): number {
    return this.#tallies[topic]?.[prio * 4 + state] ?? 0;
  }

  /** Corrects a wrong count in a damaged file. Writes, as count(). */
  recount(topic: number, prio: number, state: StateCode, there: number): void {
    const change = there - this.countOf(topic, prio, state);
    if (change !== 0) this.count(topic, prio, state, change);
  }

  total(state: StateCode): number {
    return this.#totals[state] as number;
  }

  /** Every topic that the file ever had. */
  topicNumbers(): IterableIterator<number> {
    return this.#numbers.values();
  }

  /** In ascending order. */
  *topicNumbersAfter(after: number): IterableIterator<number> {
    for (let no = after + 1; no < this.#names.length; no += 1) if (this.#names[no] !== undefined) yield no;
  }

  // Earliest delayed job

  /** null: no delayed job. */
  head(): number | null {
    if (this.#head === undefined)
      this.#head =
        this.total(delayed) === 0 ? null : ((this.#sql.readHead.get() as [number] | undefined)?.[0] ?? null);
    return this.#head;
  }

  /** Call after the job is written. */
  delayedAdded(due: number): void {
    const known = this.#head;
    if (known === undefined ? this.head() !== due : known !== null && known <= due) return;
    this.#head = due;
    this.#dueHint = true;
  }

  /** Call after the move is written. `due`: of the delayed job that was moved; null: any may have moved. */
  delayedRemoved(due: number | null): void {
    if (due === null || due === this.#head) this.#head = undefined;
  }

  // Rings

  /** `views`: of a caller that reports each topic that gains capacity. */
  deal(request: Pick<ReserveRequest, 'max' | 'others' | 'topics'>, views?: RingViews): DealPlan {
    const hasCapacity = (no: number) => (request.topics.get(this.topicName(no)) ?? request.others).room > 0;
    const turns = (prio: 0 | 1 | 2) => {
      const ring = this.#rings[prio];
      if (request.others.room <= 0) return this.#turns(prio, this.#named(ring, request.topics));
      return this.#turns(prio, views?.rings[prio]?.topics(hasCapacity) ?? ring);
    };
    return planDeals(this.#wheel, { high: turns(0), normal: turns(1), low: turns(2) }, request);
  }

  /** The named topics with capacity, in turn: for a request without capacity for others. */
  *#named(ring: Ring, topics: ReserveRequest['topics']): Generator<number> {
    const named: number[] = [];
    for (const [topic, { room }] of topics) {
      const no = room > 0 ? this.#numbers.get(topic) : undefined;
      if (no !== undefined) named.push(no);
    }
    yield* ring.inTurn(named);
  }

  *#turns(prio: 0 | 1 | 2, topics: Iterable<number>): Generator<ReadyTopic> {
    for (const no of topics) yield { topic: this.topicName(no), ready: this.countOf(no, prio, ready) };
  }

  /** The rings for a caller that reports each topic that gains capacity. */
  views(): RingViews {
    const rings = this.#rings.map((ring) => new RingView(ring));
    return {
      rings,
      gained: (name) => {
        const no = this.topicNumber(name);
        // A topic without a number has no jobs: it joins the rings behind all skipped topics.
        if (no !== undefined) for (const view of rings) view.gained(no);
      },
    };
  }

  /** Call before the dealt jobs are counted out of ready: that removes emptied topics from their rings. */
  turn({ position, served }: Pick<DealPlan, 'position' | 'served'>): void {
    for (const [prio, priority] of priorityCodes.entries())
      for (const topic of served[priority].keys()) {
        const no = this.#numbers.get(topic) as number;
        this.#rings[prio as 0 | 1 | 2].delete(no);
        this.#rings[prio as 0 | 1 | 2].add(no);
      }
    this.#wheel = position;
    this.#numbersDirty = true;
  }

  // Transactions

  savepoint(): Savepoint {
    return {
      seq: this.#seq,
      wheel: this.#wheel,
      head: this.#head,
      rings: this.#rings.map((ring) => ring.savepoint()),
      undo: this.#undo.length,
      topics: this.#names.length,
      readyHint: this.#readyHint,
      dueHint: this.#dueHint,
    };
  }

  /** The file is back at the savepoint. Numbers drawn since then are drawn again: no caller has seen them. */
  rollBackTo(savepoint: Savepoint): void {
    while (this.#undo.length > savepoint.undo) {
      const [topic, slot, change] = this.#undo.splice(-3) as [number, number, number];
      this.#shift(topic, slot, -change);
    }
    for (const name of this.#names.splice(savepoint.topics)) this.#numbers.delete(name);
    this.#tallies.length = this.#names.length;
    this.#seq = savepoint.seq;
    this.#wheel = savepoint.wheel;
    this.#head = savepoint.head;
    for (const [prio, ring] of this.#rings.entries()) ring.rollBackTo(savepoint.rings[prio] as number);
    this.#readyHint = savepoint.readyHint;
    this.#dueHint = savepoint.dueHint;
  }

  /** Writes the durable state; call last before COMMIT. */
  flush(): void {
    for (const key of this.#dirty) {
      const topic = Math.floor(key / slots);
      const slot = key % slots;
      const n = this.#tallies[topic]?.[slot];
      // A rolled-back topic has no row.
      if (n !== undefined) this.#sql.putTally.run(topic, slot >> 2, slot & 3, n);
    }
    if (!this.#numbersDirty && !this.#hasSkipped) return;
    this.#sql.putMeta.run(this.#seq, 'seq');
    this.#sql.putMeta.run(this.#wheel, 'wheel');
  }

  /** After COMMIT. Returns the hints to send. */
  commit(): { readonly ready: boolean; readonly due: boolean } {
    const hints = { ready: this.#readyHint, due: this.#dueHint };
    this.#undo.length = 0;
    this.#hasSkipped = false;
    for (const ring of this.#rings) ring.commit();
    this.#clearStage();
    return hints;
  }

  /** After ROLLBACK, with the savepoint of BEGIN. */
  rollBack(savepoint: Savepoint): void {
    this.rollBackTo(savepoint);
    this.#clearStage();
  }

  #clearStage(): void {
    this.#dirty.clear();
    this.#numbersDirty = false;
    this.#readyHint = false;
    this.#dueHint = false;
  }
}

function rows(db: Database, sql: string): unknown[][] {
  return rowsBy(db, sql).all() as unknown[][];
}
