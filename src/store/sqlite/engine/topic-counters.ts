// What the engine knows without asking the file: names and numbers of topics, how many jobs there are of each kind, whose
// turn it is, the earliest delayed job, the counter behind versions and tokens. Invariant: it says what the file says, at
// every moment outside a transaction: every change is staged, taken back with a rollback (or a savepoint's), and what must
// outlive the process is written by flush() in the transaction that changed it. Reads no job.

import type { ReserveRequest } from '../../../ports/job-store.ts';
import type { Database, Statement } from '../../../runtime/database.ts';
import { type ReadyTopic, type Taken, takeTickets } from '../../wheel.ts';
import { delayed, priorityCodes, ready, type StateCode } from '../file/schema.ts';
import { Ring, RingView, type RingViews } from './ring.ts';

/** A topic's counts lie at priority × 4 + state. */
const slots = 12;
type Rings = readonly [Ring, Ring, Ring];

/** Everything there is to go back to; `undo` and `topics` are lengths, `rings` their own marks. */
export interface Mark {
  readonly seq: number;
  readonly wheel: number;
  readonly head: number | null | undefined;
  readonly rings: readonly number[];
  readonly undo: number;
  readonly topics: number;
  readonly readyHint: boolean;
  readonly dueHint: boolean;
}

export interface TicketDeal {
  readonly prio: number;
  readonly topic: number;
}

export class TopicCounters {
  readonly #names: string[] = [''];
  readonly #numbers = new Map<string, number>();
  readonly #tallies: number[][] = [[]];
  readonly #totals = [0, 0, 0, 0];
  #seq = 0;
  #wheel = 0;
  /** ready topics of each priority */
  readonly #rings: Rings = [new Ring(), new Ring(), new Ring()];
  /** dueAt of the earliest delayed job; null = none is delayed; undefined = ask the file */
  #head: number | null | undefined;
  #readyHint = false;
  #dueHint = false;
  /** Triples topic, slot, change, latest last. */
  readonly #undo: number[] = [];
  /** topic × slots + slot of the tallies that the file does not have yet */
  readonly #dirty = new Set<number>();
  #numbersDirty = false;
  readonly #addTopic: Statement;
  readonly #putTally: Statement;
  readonly #putMeta: Statement;
  readonly #askHead: Statement;

  constructor(db: Database) {
    this.#addTopic = db.prepare('INSERT INTO topic(no, name) VALUES (?, ?)');
    this.#putTally = db.prepare(
      'INSERT INTO tally(topic, prio, state, n) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = excluded.n',
    );
    this.#putMeta = db.prepare('UPDATE meta SET v = ? WHERE k = ?');
    this.#askHead = db.prepare('SELECT due FROM job WHERE state = 0 ORDER BY due LIMIT 1', {
      returnArrays: true,
    });
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
    for (const ring of this.#rings) ring.keep();
    for (const [k, v] of rows(db, 'SELECT k, v FROM meta') as [string, number][]) {
      if (k === 'seq') this.#seq = v;
      if (k === 'wheel') this.#wheel = v;
    }
  }

  // ── topics

  topicNumber(name: string): number | undefined {
    return this.#numbers.get(name);
  }

  topicName(no: number): string {
    const name = this.#names[no];
    if (name === undefined) throw new Error(`no topic has the number ${no}`);
    return name;
  }

  /** Writes: only inside a transaction. */
  topicNumberMade(name: string): number {
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    const no = this.#names.length;
    this.#addTopic.run(no, name);
    this.#addName(no, name);
    return no;
  }

  #addName(no: number, name: string): void {
    this.#names[no] = name;
    this.#numbers.set(name, no);
    this.#tallies[no] = new Array<number>(slots).fill(0);
  }

  // ── numbers

  /** The next version or token; nowMs by the storage clock. Never the same twice, whatever the clock does. */
  draw(nowMs: number): number {
    this.#seq = Math.max(this.#seq + 1, nowMs * 1_000);
    this.#numbersDirty = true;
    return this.#seq;
  }

  /** The last version or token: all later ones are above it. */
  get drawn(): number {
    return this.#seq;
  }

  // ── counts

  /** Jobs of one kind came (change > 0) or went. */
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
    if (now < 0) throw new Error(`fewer than no jobs: topic ${topic}, slot ${slot}`);
    tally[slot] = now;
    this.#totals[slot & 3] = (this.#totals[slot & 3] as number) + change;
    return now;
  }

  countOf(topic: number, prio: number, state: StateCode): number {
    return this.#tallies[topic]?.[prio * 4 + state] ?? 0;
  }

  /** What a damaged file has counted wrongly: so many there are. Writes, as count(). */
  recount(topic: number, prio: number, state: StateCode, there: number): void {
    const change = there - this.countOf(topic, prio, state);
    if (change !== 0) this.count(topic, prio, state, change);
  }

  total(state: StateCode): number {
    return this.#totals[state] as number;
  }

  /** Every topic that the file has ever had. */
  topicNumbers(): IterableIterator<number> {
    return this.#numbers.values();
  }

  /** In their order. */
  *topicNumbersAfter(after: number): IterableIterator<number> {
    for (let no = after + 1; no < this.#names.length; no += 1) if (this.#names[no] !== undefined) yield no;
  }

  // ── the earliest delayed job

  /** null = none is delayed. */
  head(): number | null {
    if (this.#head === undefined)
      this.#head =
        this.total(delayed) === 0 ? null : ((this.#askHead.get() as [number] | undefined)?.[0] ?? null);
    return this.#head;
  }

  /** Call when the job is written. */
  delayedComes(due: number): void {
    const known = this.#head;
    if (known === undefined ? this.head() !== due : known !== null && known <= due) return;
    this.#head = due;
    this.#dueHint = true;
  }

  /** Call when a delayed job that was due then has gone (null: any of them may have), and this is written. */
  delayedGoes(due: number | null): void {
    if (due === null || due === this.#head) this.#head = undefined;
  }

  // ── whose turn it is

  /** `views`: of the caller, which tells it of every room that it gains. */
  deal(request: Pick<ReserveRequest, 'max' | 'others' | 'topics'>, views?: RingViews): Taken {
    const hasRoom = (no: number) => (request.topics.get(this.topicName(no)) ?? request.others).room > 0;
    const turns = (prio: 0 | 1 | 2) => {
      const ring = this.#rings[prio];
      if (request.others.room <= 0) return this.#turns(prio, this.#named(ring, request.topics));
      return this.#turns(prio, views?.rings[prio]?.topics(hasRoom) ?? ring);
    };
    return takeTickets(this.#wheel, { high: turns(0), normal: turns(1), low: turns(2) }, request);
  }

  /** The topics with room of a request that has none for others, in turn. */
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

  /** The rings for a caller that tells of the rooms that it gains. */
  views(): RingViews {
    const rings = this.#rings.map((ring) => new RingView(ring));
    return {
      rings,
      gained: (name) => {
        const no = this.topicNumber(name);
        // One without a number has no jobs: it joins the rings behind all that was passed over.
        if (no !== undefined) for (const view of rings) view.gained(no);
      },
    };
  }

  /** Call before the dealt jobs are counted away from ready: that takes the emptied out of their rings. */
  turn({ position, served }: Pick<Taken, 'position' | 'served'>): void {
    for (const [prio, priority] of priorityCodes.entries())
      for (const topic of served[priority].keys()) {
        const no = this.#numbers.get(topic) as number;
        this.#rings[prio as 0 | 1 | 2].delete(no);
        this.#rings[prio as 0 | 1 | 2].add(no);
      }
    this.#wheel = position;
    this.#numbersDirty = true;
  }

  // ── transactions

  mark(): Mark {
    return {
      seq: this.#seq,
      wheel: this.#wheel,
      head: this.#head,
      rings: this.#rings.map((ring) => ring.mark()),
      undo: this.#undo.length,
      topics: this.#names.length,
      readyHint: this.#readyHint,
      dueHint: this.#dueHint,
    };
  }

  /** The file went back to where it was at the mark. Numbers drawn since are drawn again: nobody has seen them. */
  takeBack(mark: Mark): void {
    while (this.#undo.length > mark.undo) {
      const [topic, slot, change] = this.#undo.splice(-3) as [number, number, number];
      this.#shift(topic, slot, -change);
    }
    for (const name of this.#names.splice(mark.topics)) this.#numbers.delete(name);
    this.#tallies.length = this.#names.length;
    this.#seq = mark.seq;
    this.#wheel = mark.wheel;
    this.#head = mark.head;
    for (const [prio, ring] of this.#rings.entries()) ring.takeBack(mark.rings[prio] as number);
    this.#readyHint = mark.readyHint;
    this.#dueHint = mark.dueHint;
  }

  /** Writes what must outlive the process; the last thing before COMMIT. */
  flush(): void {
    for (const key of this.#dirty) {
      const topic = Math.floor(key / slots);
      const slot = key % slots;
      const n = this.#tallies[topic]?.[slot];
      // A topic that was taken back again has no row.
      if (n !== undefined) this.#putTally.run(topic, slot >> 2, slot & 3, n);
    }
    if (!this.#numbersDirty) return;
    this.#putMeta.run(this.#seq, 'seq');
    this.#putMeta.run(this.#wheel, 'wheel');
  }

  /** After COMMIT. Answers the hints that the transaction has earned. */
  keep(): { readonly ready: boolean; readonly due: boolean } {
    const hints = { ready: this.#readyHint, due: this.#dueHint };
    this.#undo.length = 0;
    for (const ring of this.#rings) ring.keep();
    this.#clearStage();
    return hints;
  }

  /** After ROLLBACK, with the mark taken at BEGIN. */
  drop(mark: Mark): void {
    this.takeBack(mark);
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
  return db.prepare(sql, { returnArrays: true }).all() as unknown[][];
}
