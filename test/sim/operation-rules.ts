// Follows the operations of a world, as the registry stores them, and what they do to jobs. It holds rules
// of invariant 13 and of the manual.
// Invariant: a bulk call on dead letters names the moment of its operation; a call on live jobs names listed
// versions. So each moved job has its operation.

import {
  isOpen,
  type OperationCheckpoint,
  type OperationRecord,
  processedOf,
} from '../../src/core/operation.ts';
import type { JobStore, Store } from '../../src/ports/job-store.ts';
import type { Judge } from './judge.ts';
import { type Entry, keyOf, type Ledger, seconds, type Touch, type TouchVerb } from './ledger.ts';
import type { Loop } from './loop.ts';
import type { Network } from './network.ts';
import type { Occasions } from './occasions.ts';
import type { Process } from './process.ts';
import type { RegistryWatch } from './registry.ts';
import type { TopicTable } from './topics.ts';

interface Running {
  /** as it was stored last */
  record: OperationRecord;
  readonly id: string;
  /** virtual ms of the COMMIT of its request */
  readonly at: number;
  readonly lastNumber: number;
  readonly losses: number;
  readonly steps: number;
  /** versions in its stored steps */
  readonly listed: Set<number>;
  /** versions that it moved, or asked the store to move */
  readonly moved: Set<number>;
  /** pushes of these */
  readonly tags: Set<string>;
  /** versions that it moved, and that neither a client nor another operation has named */
  surelyMoved: number;
  /** virtual ms of the answer to a stop */
  stoppedAt: number;
  isClosed: boolean;
  /** jobs that matched when it was requested */
  readonly matching: readonly Readonly<Entry>[];
}

export interface OperationRulesOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  readonly ledger: Ledger;
  readonly network: Network;
  readonly occasions: Occasions;
  readonly topics: TopicTable;
}

type LiveVerb = 'cancel' | 'run' | 'reschedule';

/** `dq op stop` stops it within this time. */
const stopMs = 2_000;
/** Messages on the way. */
const messageMs = 200;
/** What the clock of dq-upkeep differs from that of the store, and a turn of it. */
const spreadSlackMs = 500;
/** After the time of a spread its operation ends. */
const endMs = 5_000;

const verbOf = ({ kind }: OperationRecord): TouchVerb =>
  kind === 'clear' || kind === 'restore' ? 'cancel' : kind;

export class OperationRules {
  readonly #options: OperationRulesOptions;
  readonly #all = new Map<string, Running>();
  /** by the name of its actor: what matched before its moment was drawn */
  readonly #asked = new Map<string, readonly Readonly<Entry>[]>();
  /** keys that a client has named in a verb, too */
  readonly namedByClients = new Set<string>();
  readonly counts = { 'jobs moved by operations': 0, 'operations ended': 0, 'operations stopped': 0 };
  readonly watch: RegistryWatch = {
    createOperation: (result, record) => {
      if (result === 'created') this.#created(record);
      this.#options.occasions.happened('work', 'request');
    },
    checkpointOperation: (result, _, checkpoint) => {
      if (result !== 'lost') this.#stored(checkpoint, result === 'stopped');
      this.#options.occasions.happened('work', 'step');
    },
    stopOperation: (record, id) => {
      if (record?.state === 'stopped') this.#stopped(id);
      this.#options.occasions.happened('work', 'stop');
    },
  };

  constructor(options: OperationRulesOptions) {
    this.#options = options;
    options.ledger.listeners.push({ touched: (touch) => this.#touched(touch) });
  }

  /** ids of those without an end */
  get open(): readonly string[] {
    return [...this.#all.values()].flatMap(({ id, isClosed }) => (isClosed ? [] : [id]));
  }

  /** ids of those that move their jobs one after the other */
  get paced(): readonly string[] {
    return [...this.#all.values()].flatMap(({ id, isClosed, record: { rate, spreadMs } }) =>
      isClosed || (rate === null && spreadMs === null) ? [] : [id],
    );
  }

  /** An operator is about to request one: these jobs match. `actor`: of the request. */
  asking(actor: string, matching: readonly Readonly<Entry>[]): void {
    this.#asked.set(
      actor,
      matching.map((entry) => ({ ...entry })),
    );
  }

  /** The store of dq-upkeep: sees the calls on live jobs, which only operations make. */
  watched(process: Process, store: Store): Store {
    const { jobs } = store;
    const seen = (verb: LiveVerb): JobStore[LiveVerb] =>
      ((items: readonly { readonly topic: string; readonly id: string; readonly version?: number }[]) => {
        for (const item of items) this.#sent(process, verb, keyOf(item), item.version);
        return jobs[verb](items as never);
      }) as never;
    const verbs = { cancel: seen('cancel'), run: seen('run'), reschedule: seen('reschedule') } as never;
    return { ...store, jobs: { ...jobs, ...(verbs as object) } };
  }

  checkEnd(): void {
    const { judge } = this.#options;
    for (const { id, isClosed, record } of this.#all.values())
      judge.check(isClosed, 'operations: each one ends', () => `${id}: ${JSON.stringify(record)}`);
  }

  #created(record: OperationRecord): void {
    const { loop, ledger } = this.#options;
    this.#all.set(record.id, {
      ...{ record, id: record.id, at: loop.at, lastNumber: ledger.lastNumber, losses: ledger.losses },
      ...{ steps: ledger.steps, listed: new Set(), moved: new Set(), tags: new Set(), surelyMoved: 0 },
      ...{ stoppedAt: Number.POSITIVE_INFINITY, isClosed: false },
      matching: this.#asked.get(record.actor) ?? [],
    });
  }

  #stored({ record, work, isClosed }: OperationCheckpoint, isStopped: boolean): void {
    const { judge } = this.#options;
    const running = this.#all.get(record.id);
    if (running === undefined) return;
    running.record = isStopped ? { ...record, state: 'stopped' } : record;
    for (const [topic, id, version] of work.step) {
      running.listed.add(version);
      this.#checkMatch(running, `${topic}/${id}`, topic, version);
    }
    judge.check(record.state !== 'failed', 'operations: none fails', () => JSON.stringify(record));
    if (!isClosed || running.isClosed) return;
    running.isClosed = true;
    this.counts['operations ended'] += 1;
    this.#checkEnded(running);
  }

  #stopped(id: string): void {
    const { loop } = this.#options;
    const running = this.#all.get(id);
    if (running === undefined || running.isClosed || running.stoppedAt < loop.at) return;
    running.stoppedAt = loop.at;
    this.counts['operations stopped'] += 1;
  }

  /** No job of a later push, version or death, and none of another topic. */
  #checkMatch({ record, lastNumber, losses }: Running, key: string, topic: string, version: number): void {
    const { judge, ledger } = this.#options;
    judge.check(
      losses !== ledger.losses || version <= lastNumber,
      '13 an operation moves only what matched when it was requested',
      () => `${record.id} ${record.kind}: ${key}, version ${version} after ${lastNumber}`,
    );
    judge.check(
      record.filter.topic === undefined || record.filter.topic === topic,
      '13 an operation moves only jobs of its topic',
      () => `${record.id} ${record.kind}: ${key}`,
    );
  }

  /** A call of dq-upkeep on a live job. */
  #sent(process: Process, verb: LiveVerb, key: string, version: number | undefined): void {
    const { judge } = this.#options;
    const what = () => `${verb} of ${key}, version ${version}`;
    const ofVerb = [...this.#all.values()].filter((each) => verbOf(each.record) === verb);
    const listing = ofVerb.filter(({ listed }) => version !== undefined && listed.has(version));
    judge.check(listing.length > 0, '13 an operation moves only jobs of its list', what);
    const working = listing.filter((each) => this.#mayWork(each, process));
    judge.check(working.length > 0, '13 an operation that has ended or is stopped moves nothing', what);
    for (const each of working) if (version !== undefined) each.moved.add(version);
  }

  /** It is open, or was stopped a short time ago. */
  #mayWork({ isClosed, stoppedAt, record }: Running, process: Process | null): boolean {
    const { loop } = this.#options;
    if (record.dryRun) return false;
    const isLate = loop.at > stoppedAt + stopMs + messageMs;
    return !isClosed && (!isLate || this.#wasSlow(stoppedAt, process));
  }

  /** Messages, dq-store or this process could be late since then. */
  #wasSlow(since: number, process: Process | null): boolean {
    const { network, ledger, loop } = this.#options;
    const hasPaused = [...loop.processes.values()].some(
      (each) => (process === null || each === process) && each.lastPauseEnd > since - 1_000,
    );
    return hasPaused || network.slowUntil >= since || ledger.startedAt >= since;
  }

  #touched({ verb, entry, below }: Touch): void {
    if (verb === 'purge topic') return;
    const { occasions } = this.#options;
    if (below === undefined) {
      this.#movedByName(verb, entry);
      return;
    }
    const { judge } = this.#options;
    const mover = [...this.#all.values()].find(
      ({ record }) =>
        verbOf(record) === verb && below !== null && Object.values(record.moment).includes(below),
    );
    judge.check(
      mover !== undefined,
      '13 a bulk call is one of an operation',
      () => `${verb} of ${entry.key}, deaths before ${below}`,
    );
    if (mover !== undefined) this.#moved(mover, entry);
    occasions.happened('work', 'move');
  }

  /** A client, or a second operation, may have named the job, too. */
  #movedByName(verb: TouchVerb, { key, version }: Readonly<Entry>): void {
    const movers = [...this.#all.values()].filter(
      ({ record, moved, isClosed }) => verbOf(record) === verb && moved.has(version) && !isClosed,
    );
    const [mover] = movers;
    if (mover === undefined) return;
    this.counts['jobs moved by operations'] += 1;
    if (movers.length === 1 && !this.namedByClients.has(key)) mover.surelyMoved += 1;
    this.#options.occasions.happened('work', 'move');
  }

  #moved(running: Running, { key, topic, version, tag, deadAt }: Readonly<Entry>): void {
    const { judge, ledger } = this.#options;
    const { record, listed, moved, tags, at, losses, isClosed, stoppedAt } = running;
    this.counts['jobs moved by operations'] += 1;
    if (losses !== ledger.losses) return;
    const what = () => `${record.id} ${record.kind}: ${key}, version ${version}`;
    this.#checkMatch(running, key, topic, version);
    judge.check(
      deadAt <= at,
      '13 an operation moves only what matched when it was requested',
      () => `${what()} died ${seconds(deadAt - at)} later`,
    );
    judge.check(listed.has(version), '13 an operation moves only jobs of its list', what);
    judge.check(!tags.has(`${key} ${tag}`), '13 an operation moves each job once', what);
    judge.check(
      this.#mayWork(running, null) || (!record.dryRun && this.#wasSlow(Math.min(at, stoppedAt), null)),
      '13 an operation that has ended or is stopped moves nothing',
      () => `${what()}: closed ${isClosed}, stopped at ${stoppedAt}`,
    );
    moved.add(version);
    tags.add(`${key} ${tag}`);
    running.surelyMoved += 1;
    this.#checkSpread(running);
  }

  /** Job n is moved at n / matched of the time. */
  #checkSpread({ record, steps, at, surelyMoved, id }: Running): void {
    const { judge, ledger, loop } = this.#options;
    const { spreadMs, matched, movingAt } = record;
    if (spreadMs === null || matched === null || movingAt === null) return;
    if (steps !== ledger.steps || this.#wasSlow(at, null)) return;
    const part = (loop.wall + spreadSlackMs - movingAt) / spreadMs;
    if (part >= 1) return;
    judge.check(
      surelyMoved <= Math.floor(part * matched) + 1,
      'operations: a requeue keeps its spread',
      () => `${id}: ${surelyMoved} of ${matched} are moved after ${part} of ${spreadMs} ms`,
    );
  }

  #checkEnded(running: Running): void {
    const { judge, ledger, topics, loop } = this.#options;
    const { record, id, losses, at, listed, surelyMoved, matching, steps } = running;
    const { done, skipped, failed, matched, dryRun, movingAt, spreadMs } = record;
    const text = () =>
      `${id}: ${JSON.stringify({ done, skipped, failed, matched })}, ${surelyMoved} were moved`;
    judge.check(!isOpen(record), 'operations: an ended one is not open', text);
    judge.check(
      record.state !== 'finished' || dryRun || matched === processedOf(record),
      'operations: in the end matched = done + skipped + failed',
      text,
    );
    if (losses !== ledger.losses) return;
    const current = new Set([...ledger.entries.values()].map(({ version }) => version));
    const changed = [...listed].filter((version) => !current.has(version)).length;
    judge.check(
      done <= changed,
      'operations: done is what was moved',
      () => `${text()}, ${changed} are changed`,
    );
    // A call of a dead process that arrives late is not known to its successor.
    const known = this.#wasSlow(at, null) ? done + skipped : done;
    judge.check(known >= surelyMoved, 'operations: done is what was moved', text);
    if (record.state !== 'finished' || dryRun) return;
    const isLate = spreadMs !== null && movingAt !== null && loop.wall > movingAt + spreadMs + endMs;
    judge.check(
      !isLate || !topics.isReadSoon || steps !== ledger.steps,
      'operations: a spread ends in its time',
      () => `${id}: ${loop.wall - (movingAt ?? 0)} ms of ${spreadMs}`,
    );
    const left = matching.filter(({ key, version, state, deadAt }) => {
      const now = ledger.entries.get(key);
      return now?.version === version && now.state === state && now.deadAt === deadAt;
    });
    judge.check(
      left.length <= failed,
      '13 an operation moves each job that matched',
      () =>
        `${id} ${record.kind}: ${left.map(({ key, version }) => `${key}, version ${version}`).join('; ')}`,
    );
  }
}
