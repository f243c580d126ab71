// A simulation of one bucket with a journal: processes of two instances call it, rows reach spools late,
// instances ship them, snapshots of the bucket are put back or all its data is lost, and two healers restore
// jobs from the rows. Pure: one seed gives one run.
// Invariant, checked after each run: an accepted job is stored until an answered end, and a job with an
// answered end does not come back. Standing and merge of rows are those of core/journal; the rules of the
// scripts are written here once more, and each of them can be replaced by a mistake.

import { Dice } from '../../scripts/dice.ts';
import type { Change } from '../../src/core/journal/change.ts';
import { isEnded, isRestorable, type JobRow, mergeRows, rowOf } from '../../src/core/journal/job-row.ts';

interface Job {
  readonly version: number;
  readonly origin: number;
  readonly failures: number;
  /** token of its lease */
  readonly lease: number | null;
}

type Phase = 'ends' | 'jobs';

/** Stays in a bucket from the discovery of a rollback until the bucket is healed. */
interface Note {
  readonly id: number;
  /** a number that the bucket still has: changes above it may be lost */
  readonly from: number;
  readonly phase: Phase;
}

interface Bucket {
  /** last number drawn */
  seq: number;
  /** by process: the last number drawn for it; by instance: the newest number that look reported */
  readonly marks: Map<string, number>;
  readonly jobs: Map<string, Job>;
  /** history entries: the version that ended last */
  readonly ended: Map<string, number>;
  note: Note | null;
  /** id of the last note that was removed; 0 = none */
  healed: number;
}

type Instance = 'A' | 'B';

interface Process {
  /** the same in the next incarnation */
  readonly role: string;
  /** of its watermark */
  readonly name: string;
  readonly instance: Instance;
  isDead: boolean;
  /** the highest own number that it received */
  known: number;
  /** rows between the reply of the store and the spool */
  readonly pending: Change[];
  readonly spool: Change[];
  /** rows of the spool that are in MySQL */
  shipped: number;
  /** the highest own number of them */
  shippedNumber: number;
}

export interface Rules {
  readonly merge: (a: JobRow, b: JobRow) => JobRow;
  readonly versionOfCancel: (number: number, job: Job | undefined) => number;
  /** version of the history entry of a cancel */
  readonly entryOfCancel: (number: number, job: Job | undefined) => number;
  /** what a call sends as the highest own number that the process knows */
  readonly sent: (known: number) => number;
  /** whether a loss is not covered by the note that exists */
  readonly isNews: (stored: number, known: number, note: Note | null) => boolean;
  /** name of the watermark of a process */
  readonly markOf: (process: string) => string;
  /** `from` of a new note */
  readonly lostFrom: (stored: number, known: number) => number;
  /** whether a row that was just shipped must be compared with the bucket by itself */
  readonly isLate: (number: number, bucket: Bucket) => boolean;
  /** whether a history entry shows that the job of a row has ended */
  readonly hasEnded: (entry: number, row: JobRow) => boolean;
  readonly phases: readonly Phase[];
  readonly holdsReserve: (note: Note | null) => boolean;
  /** whether look compares the numbers of a batch before it is committed, also those of dead processes */
  readonly looksAtBatch: boolean;
  /** whether look compares the newest shipped number of each instance, beside those of living processes */
  readonly looksAtInstances: boolean;
  /** whether phase `ends` also replaces jobs that came back by open rows of newer versions */
  readonly replacesFirst: boolean;
  /** whether a put needs the barrier of the newest note: before it, MySQL may have an older row of the job */
  readonly needsBarrier: boolean;
  /** whether an ended row leaves a history entry where its job is absent: another healer may hold an older
   *  row */
  readonly leavesEntry: boolean;
}

export const rules: Rules = {
  merge: mergeRows,
  versionOfCancel: (number) => number,
  entryOfCancel: (number) => number,
  sent: (known) => known,
  isNews: (stored, known, note) => note === null || known > note.id || stored < note.from,
  markOf: (process) => process,
  lostFrom: (stored) => stored,
  isLate: (number, { note, healed }) => number < Math.max(note?.id ?? 0, healed),
  hasEnded: (entry, row) => entry >= row.version,
  phases: ['ends', 'jobs'],
  holdsReserve: (note) => note?.phase === 'ends',
  looksAtBatch: true,
  looksAtInstances: true,
  replacesFirst: true,
  needsBarrier: true,
  leavesEntry: true,
};

export type Fault = 'lost' | 'revived' | 'not healed' | 'false alarm';

const ids = ['a', 'b', 'c'];
const rowsPerPage = 2;
const body = Buffer.alloc(0);

/** One literal with the members of every kind: spreads took half of the time of a run. */
function changeOf(
  kind: 'accepted' | 'moved' | 'retried' | 'ended' | 'restored',
  id: string,
  number: number,
  { version, origin, failures }: Pick<Job, 'version' | 'origin' | 'failures'>,
  isOwn = true,
): Change {
  return {
    topic: 't',
    id,
    place: '',
    number,
    version,
    origin,
    dueAt: 0,
    failures,
    isOwn,
    kind,
    end: 'done',
    by: 'run',
    attempt: null,
    deadAt: null,
    reason: null,
    acceptedAt: 0,
    priority: 'normal',
    contentType: null,
    extension: null,
    body,
  } as Change;
}

const emptyBucket = (): Bucket => ({
  ...{ seq: 0, marks: new Map(), jobs: new Map(), ended: new Map(), note: null, healed: 0 },
});
const copyOf = ({ seq, marks, jobs, ended, note, healed }: Bucket): Bucket => ({
  ...{ seq, marks: new Map(marks), jobs: new Map(jobs), ended: new Map(ended), note, healed },
});

/** Whether the row replaces or ends the job. */
const isOutrun = (job: Job, row: JobRow): boolean =>
  isEnded(row) ? row.version >= job.version : isRestorable(row) && row.version > job.version;

/** Runs one simulation. null: the invariant held. */
export function simulate(seed: number, its: Rules = rules): Fault | null {
  return new Simulation(seed, its).run();
}

class Simulation {
  readonly #dice: Dice;
  readonly #rules: Rules;
  /** µs; the clock of the bucket survives its data */
  #clock = 1_000;
  #bucket = emptyBucket();
  readonly #processes: Process[] = [];
  /** ids of changes that a process left behind when it died: they are unanswered */
  readonly #unanswered = new Set<string>();
  /** the tables of MySQL */
  readonly #rows = new Map<string, JobRow>();
  readonly #log: { readonly id: string; readonly number: number }[] = [];
  /** the newest note whose barrier was passed: MySQL has all rows answered before it */
  #barrier = 0;
  /** by instance: the newest number that is shipped */
  readonly #shippedMarks = new Map<Instance, number>();
  /** ids of late rows that wait for their comparison */
  readonly #late: string[] = [];
  readonly #leases: { readonly id: string; readonly job: Job }[] = [];
  /** all answered changes of an id, merged */
  readonly #answered = new Map<string, JobRow>();
  /** as they were at the newest note since the last loss */
  #answeredBeforeNote: ReadonlyMap<string, JobRow> | null = null;
  #losses = 0;
  #fault: Fault | null = null;

  constructor(seed: number, its: Rules) {
    this.#dice = new Dice(seed);
    this.#rules = its;
    for (const role of ['A.1', 'A.2', 'B.1', 'A.upkeep', 'B.upkeep']) this.#start(role);
  }

  run(): Fault | null {
    const dice = this.#dice;
    const steps = 30 + dice.below(70);
    const healers = ['A.upkeep', 'B.upkeep'].map((role) => this.#healing(role));
    const snapshots = new Map<number, Bucket>();
    const losses = Array.from({ length: 1 + dice.below(2) }, () => dice.below(steps / 2));
    for (let step = 0; step < steps; step += 1) {
      if (dice.chance(0.1)) snapshots.set(step, copyOf(this.#bucket));
      if (losses.includes(step)) this.#lose([...snapshots.values()]);
      const choice = dice.below(12);
      if (choice < 6) this.#call();
      else if (choice === 6) this.#ship(dice.pick(['A', 'B']));
      else if (choice === 7) this.#look();
      else if (choice === 8) this.#compareLate();
      else dice.pick(healers).next();
      if (dice.chance(0.1)) this.#arrive();
      if (dice.chance(0.02)) this.#die();
    }
    this.#settle(healers);
    return this.#fault ?? this.#finalFault();
  }

  /** The living process of a role. */
  #process(role: string): Process {
    return this.#processes.find((one) => one.role === role && !one.isDead) as Process;
  }

  #start(role: string): void {
    this.#processes.push({
      ...{ role, name: `${role} ${this.#processes.length}`, instance: role.startsWith('A') ? 'A' : 'B' },
      ...{ isDead: false, known: 0, pending: [], spool: [], shipped: 0, shippedNumber: 0 },
    });
  }

  /** Rows that are not in the spool are gone; a new incarnation begins. */
  #die(): void {
    const process = this.#process(this.#dice.pick(['A.1', 'A.2', 'B.1', 'A.upkeep', 'B.upkeep']));
    process.isDead = true;
    for (const { id } of process.pending.splice(0)) this.#unanswered.add(id);
    this.#start(process.role);
  }

  // ── The store loses changes

  #lose(snapshots: readonly Bucket[]): void {
    this.#losses += 1;
    this.#answeredBeforeNote = null;
    if (snapshots.length > 0 && this.#dice.chance(0.75)) {
      this.#bucket = copyOf(this.#dice.pick(snapshots));
      return;
    }
    this.#bucket = emptyBucket();
    this.#note({ from: 0, phase: 'jobs' });
  }

  // ── Noticing

  #draw(): number {
    this.#clock += 1 + this.#dice.below(3);
    this.#bucket.seq = Math.max(this.#bucket.seq + 1, this.#clock);
    return this.#bucket.seq;
  }

  /** What the frame of each script does first; look does it with the numbers that were shipped. */
  #check(mark: string, known: number): void {
    const { marks, note, healed } = this.#bucket;
    const stored = marks.get(mark) ?? 0;
    if (stored >= known || known <= healed || !this.#rules.isNews(stored, known, note)) return;
    const from = this.#rules.lostFrom(stored, known);
    this.#note({ from: Math.min(note?.from ?? Number.POSITIVE_INFINITY, from), phase: 'ends' });
  }

  #note({ from, phase }: Omit<Note, 'id'>): void {
    if (this.#losses === 0) this.#fault ??= 'false alarm';
    this.#bucket.note = { id: this.#draw(), from, phase };
    this.#answeredBeforeNote = new Map(this.#answered);
  }

  #checkCall({ name, known }: Process): void {
    this.#check(this.#rules.markOf(name), this.#rules.sent(known));
  }

  /** Covers processes that make no calls, and by their instance those that are dead. */
  #look(): void {
    for (const { name, shippedNumber, isDead } of this.#processes)
      if (!isDead) this.#check(this.#rules.markOf(name), shippedNumber);
    if (this.#rules.looksAtInstances)
      for (const [instance, number] of this.#shippedMarks) this.#check(instance, number);
  }

  // ── Calls

  #call(): void {
    const dice = this.#dice;
    const process = this.#process(dice.pick(['A.1', 'A.2', 'B.1']));
    const id = dice.pick(ids);
    this.#checkCall(process);
    const choice = dice.below(12);
    if (choice < 3) this.#push(process, id);
    else if (choice < 4) this.#keep(process, id);
    else if (choice < 6) this.#cancel(process, id);
    else if (choice < 7) this.#move(process, id);
    else if (choice < 9) this.#reserve(id);
    else this.#finish(process);
  }

  #push(process: Process, id: string): void {
    const version = this.#draw();
    const job = { version, origin: version, failures: 0, lease: null };
    this.#bucket.jobs.set(id, job);
    this.#bucket.ended.delete(id);
    this.#changed(process, changeOf('accepted', id, version, job));
  }

  #keep(process: Process, id: string): void {
    const { jobs, note } = this.#bucket;
    const job = jobs.get(id);
    if (job !== undefined) process.pending.push(changeOf('accepted', id, job.version, job, false));
    // While the bucket heals, the store does not know whether the job exists.
    else if (note === null) this.#push(process, id);
  }

  #cancel(process: Process, id: string): void {
    const { jobs, ended, note } = this.#bucket;
    const job = jobs.get(id);
    if (job === undefined && note === null) return;
    const number = this.#draw();
    jobs.delete(id);
    ended.set(id, this.#rules.entryOfCancel(number, job));
    const version = this.#rules.versionOfCancel(number, job);
    this.#changed(
      process,
      changeOf('ended', id, number, { version, origin: job?.origin ?? number, failures: 0 }),
    );
  }

  #move(process: Process, id: string): void {
    const job = this.#bucket.jobs.get(id);
    if (job === undefined || job.lease !== null) return;
    const moved = { ...job, version: this.#draw() };
    this.#bucket.jobs.set(id, moved);
    this.#changed(process, changeOf('moved', id, moved.version, moved));
  }

  #reserve(id: string): void {
    const job = this.#bucket.jobs.get(id);
    if (job === undefined || job.lease !== null || this.#rules.holdsReserve(this.#bucket.note)) return;
    // After a note, ended and replaced jobs that came back do not run.
    const before = this.#answeredBeforeNote?.get(id);
    if (before !== undefined && isOutrun(job, before) && !this.#unanswered.has(id)) this.#fault ??= 'revived';
    const leased = { ...job, lease: this.#draw() };
    this.#bucket.jobs.set(id, leased);
    this.#leases.push({ id, job: leased });
  }

  #finish(process: Process): void {
    const [lease] = this.#leases.splice(this.#dice.below(this.#leases.length), 1);
    if (lease === undefined) return;
    const { jobs, ended, note } = this.#bucket;
    const { id, job } = lease;
    const stored = jobs.get(id);
    const isHeld = stored?.version === job.version && stored.lease === job.lease;
    // While the bucket heals, a job in flight that is absent is not called again after it is put back.
    const isLost = stored === undefined && note !== null && (ended.get(id) ?? 0) < job.version;
    if (isHeld && this.#dice.chance(0.4)) {
      const retried = { ...stored, failures: job.failures + 1, lease: null };
      jobs.set(id, retried);
      this.#changed(process, changeOf('retried', id, this.#draw(), retried));
    } else if (isHeld || isLost) {
      jobs.delete(id);
      ended.set(id, job.version);
      this.#changed(process, changeOf('ended', id, this.#draw(), job));
    }
  }

  /** The reply of the store: the bucket and the process keep the number. */
  #changed(process: Process, change: Change): void {
    this.#bucket.marks.set(this.#rules.markOf(process.name), change.number);
    process.known = change.number;
    process.pending.push(change);
    if (this.#dice.chance(0.7)) this.#toSpool(process, process.pending.length - 1);
  }

  /** The row is in the spool: the process answers. */
  #toSpool(process: Process, at: number): void {
    const [change] = process.pending.splice(at, 1);
    if (change === undefined) return;
    process.spool.push(change);
    const { id } = change;
    const row = this.#answered.get(id);
    const its = rowOf(change);
    this.#answered.set(id, row === undefined ? its : mergeRows(row, its));
  }

  /** A row that was late reaches its spool. */
  #arrive(): void {
    const process = this.#process(this.#dice.pick(['A.1', 'A.2', 'B.1', 'A.upkeep', 'B.upkeep']));
    this.#toSpool(process, this.#dice.below(process.pending.length));
  }

  // ── MySQL

  /** Looks with the numbers of the batch, also those of dead processes; reports the newest one to the bucket;
   *  then commits. So the bucket has this number or a higher one, unless it went back. */
  #ship(instance: Instance): void {
    const batch = this.#processes.filter(
      (one) => one.instance === instance && one.shipped < one.spool.length,
    );
    for (const process of batch) {
      const own = process.spool.slice(process.shipped).filter(({ isOwn }) => isOwn);
      process.shippedNumber = Math.max(process.shippedNumber, ...own.map(({ number }) => number));
      if (this.#rules.looksAtBatch) this.#check(this.#rules.markOf(process.name), process.shippedNumber);
    }
    this.#look();
    const newest = Math.max(this.#shippedMarks.get(instance) ?? 0, ...batch.map((one) => one.shippedNumber));
    if (newest > 0) this.#bucket.marks.set(instance, newest);
    for (const process of batch)
      for (; process.shipped < process.spool.length; process.shipped += 1)
        this.#record(process.spool[process.shipped] as Change);
    this.#shippedMarks.set(instance, newest);
  }

  #record(change: Change): void {
    const { id, number } = change;
    const row = this.#rows.get(id);
    this.#rows.set(id, row === undefined ? rowOf(change) : this.#rules.merge(row, rowOf(change)));
    this.#log.push({ id, number });
    if (this.#rules.isLate(number, this.#bucket)) this.#late.push(id);
  }

  // ── Healing

  *#healing(role: string): Generator<void, never> {
    for (;;) {
      const { note } = this.#bucket;
      if (note !== null) yield* this.#heal(role, note);
      yield;
    }
  }

  *#heal(role: string, { id, from, phase: first }: Note): Generator<void> {
    // The barrier: all spools are shipped.
    this.#ship('A');
    this.#ship('B');
    this.#barrier = Math.max(this.#barrier, id);
    this.#look();
    yield;
    const isCurrent = () => this.#bucket.note?.id === id;
    for (const phase of first === 'ends' ? this.#rules.phases : (['jobs'] as const)) {
      yield* this.#putPages(role, id, from, phase);
      if (isCurrent()) this.#bucket.note = { id, from, phase: 'jobs' };
    }
    if (!isCurrent()) return;
    this.#bucket.note = null;
    this.#bucket.healed = id;
  }

  /** Other calls, and the other healer, come between the reading of a page and each of its puts. */
  *#putPages(role: string, note: number, from: number, phase: Phase): Generator<void> {
    const above = [...new Set(this.#log.filter(({ number }) => number > from).map(({ id }) => id))];
    for (let at = 0; at < above.length; at += rowsPerPage) {
      const page = above.slice(at, at + rowsPerPage).map((id) => this.#rows.get(id) as JobRow);
      yield;
      for (const row of page) {
        if (isEnded(row) ? phase === 'jobs' : phase === 'ends' && !this.#rules.replacesFirst) continue;
        const healer = this.#process(role);
        this.#checkCall(healer);
        this.#put(healer, note, row, phase);
        yield;
      }
    }
  }

  #compareLate(): void {
    if (!this.#isBehind(this.#barrier)) return;
    const row = this.#rows.get(this.#late.shift() ?? '');
    if (row === undefined) return;
    for (const phase of ['ends', 'jobs'] as const)
      this.#put(this.#process('A.upkeep'), this.#barrier, row, phase);
  }

  /** Whether no note is newer than the one of this barrier. */
  #isBehind(barrier: number): boolean {
    const { note, healed } = this.#bucket;
    return barrier >= (note?.id ?? healed) || !this.#rules.needsBarrier;
  }

  /** Decides for one row, as restore.lua. Phase `ends` is for jobs that came back, phase `jobs` for absent
   *  ones. */
  #put(healer: Process, barrier: number, row: JobRow, phase: Phase): void {
    const { jobs, ended } = this.#bucket;
    if (!this.#isBehind(barrier)) return;
    const { id, version } = row;
    const job = jobs.get(id);
    if (job !== undefined && job.version > version) return;
    if ((job === undefined) !== (phase === 'jobs')) return;
    if (isEnded(row)) {
      if (job === undefined && !this.#rules.leavesEntry) return;
      jobs.delete(id);
      ended.set(id, Math.max(ended.get(id) ?? 0, version));
    } else if (job?.version === version) {
      if (job.lease === null && row.failures > job.failures) this.#store(row);
    } else if (isRestorable(row) && (job !== undefined || !this.#rules.hasEnded(ended.get(id) ?? 0, row))) {
      this.#store(row);
      this.#changed(healer, changeOf('restored', id, this.#draw(), row));
    }
  }

  #store({ id, version, origin, failures }: JobRow): void {
    this.#bucket.jobs.set(id, { version, origin, failures, lease: null });
    this.#bucket.ended.delete(id);
  }

  // ── The end of a run

  /** All rows arrive, and the healers end their work. */
  #settle(healers: readonly Generator<void>[]): void {
    for (let round = 0; round < 300; round += 1) {
      for (const process of this.#processes) while (process.pending.length > 0) this.#toSpool(process, 0);
      this.#ship('A');
      this.#ship('B');
      this.#look();
      for (const healer of healers) healer.next();
      this.#compareLate();
      if (round > 60 && this.#bucket.note === null && this.#late.length === 0) return;
    }
    this.#fault ??= 'not healed';
  }

  #finalFault(): Fault | null {
    for (const [id, row] of this.#answered) {
      if (this.#unanswered.has(id)) continue;
      const version = this.#bucket.jobs.get(id)?.version ?? 0;
      if (isEnded(row) && version > 0 && version <= row.version) return 'revived';
      if (isRestorable(row) && version < row.version) return 'lost';
    }
    return null;
  }
}
