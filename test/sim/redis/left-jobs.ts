// The jobs that the first instance of a world on Redis has in jobs.db from before, the operator who moves
// them, and clients who have leases of them, or cancel them. The rules on a move: nothing is delivered from
// jobs.db, what it forgets is in Redis or has ended there, a push of an id reaches Redis only after what
// jobs.db has of it, and what ended does not arrive. That each job ends is a rule of the ledger.
// Another instance knows nothing of that jobs.db: its pushes of the same ids are other jobs.

import type { Dice } from '../../../scripts/dice.ts';
import {
  type AttemptRecord,
  type JobKey,
  type Owner,
  pullOwner,
  type ReservedJob,
} from '../../../src/core/job.ts';
import { leaseText } from '../../../src/core/pull-lease.ts';
import type { BuryItem, PushJob } from '../../../src/ports/job-store.ts';
import { Engine } from '../../../src/store/sqlite/engine/engine.ts';
import { type Entry, keyOf, type LedgerListener, tagOf } from '../ledger.ts';
import type { LeaseAsk } from '../pull-desk.ts';
import { leaseKey, type Server } from '../roles.ts';
import type { Scene } from '../scene.ts';
import type { Action, Operators, Work } from '../works.ts';

/** virtual ms */
const beginMsMax = 20_000;
const againMs = 1_000;
const jobsMax = 14;
/** in the history of jobs.db */
const endedMax = 4;
/** As producers choose them (producers.ts), so that they meet. */
const idsOfTopic = 8;
const leaseMs = 5_000;
/** Of a lease, between its end and the moment when it is recovered. */
const earlyMs = 1_000;

const attempt: AttemptRecord = {
  ...{ attempt: 1, startedAt: 0, durationMs: 1, outcome: 'failed', reason: 'status', status: 500 },
  ...{ replyExcerpt: '', notifier: 'dq-notifier-0', host: 'vm' },
};

interface Row extends JobKey {
  readonly version: number;
  readonly isReserved: boolean;
}

/** A lease that a client got before the move. */
interface Pulled {
  readonly job: ReservedJob;
  /** epoch ms */
  readonly until: number;
  /** A client has sent a verb, which may have ended it. */
  isUsed: boolean;
}

export interface LeftJobsOptions {
  readonly scene: Scene;
  readonly operators: Operators;
  /** that know this jobs.db, of those that work */
  readonly servers: () => readonly Server[];
  /** No other instance pushes the same ids. */
  readonly isAlone: boolean;
}

export class LeftJobs implements Work {
  readonly #scene: Scene;
  readonly #options: LeftJobsOptions;
  readonly #pulled: Pulled[] = [];
  /** by key: the version that ended in jobs.db, or whose cancel was answered */
  readonly #ended = new Map<string, number>();
  /** tags of pushes that jobs.db took: until they arrive, the ledger of the first shard has them */
  readonly #pushed = new Set<string>();
  /** of the jobs that are or were in jobs.db */
  readonly #versions = new Set<number>();
  /** by key: the version that jobs.db forgot last */
  readonly #forgotten = new Map<string, number>();
  readonly #rows: () => readonly unknown[][];
  readonly #meta: () => readonly unknown[][];
  readonly #endOf: () => readonly unknown[][];
  readonly #left: readonly Row[];
  readonly counts: Record<string, number> = { 'left jobs': 0, 'left jobs arrived': 0 };

  constructor(options: LeftJobsOptions) {
    const { scene } = options;
    const { db, ledger, loop } = scene;
    this.#scene = scene;
    this.#options = options;
    const all = (sql: string) => {
      const statement = db.prepare(sql, { returnArrays: true });
      return () => statement.all() as unknown[][];
    };
    this.#rows = all(
      `SELECT topic.name, CAST(job.id AS TEXT), job.version, job.state = 2 FROM job
       JOIN topic ON topic.no = job.topic WHERE job.state < 4`,
    );
    this.#meta = all("SELECT k FROM meta WHERE k IN ('moving', 'moved')");
    this.#endOf = all(
      `SELECT topic.name, CAST(job.id AS TEXT), job.ended_at FROM job
       JOIN topic ON topic.no = job.topic WHERE job.state = 4`,
    );
    this.#fill(loop.stream('left jobs'), loop.stream('left ends'));
    this.#left = [...this.#stored().values()];
    for (const { version } of this.#left) this.#versions.add(version);
    this.counts['left jobs'] = this.#left.length;
    const listener: LedgerListener = {
      pushed: (entry, old) => {
        this.#checkPushed(entry, old?.version ?? 0);
        if (old === undefined) this.#checkWindow(entry);
      },
      restored: (entry) => this.#checkArrived(entry),
      lost: () => this.#checkKept(),
    };
    ledger.listen(listener);
  }

  #stored(): ReadonlyMap<string, Row> {
    return new Map(
      (this.#rows() as [string, string, number, number][]).map(([topic, id, version, isReserved]) => [
        keyOf({ topic, id }),
        { topic, id, version, isReserved: isReserved === 1 },
      ]),
    );
  }

  /** Those with a past first: a reserve then finds no other job. */
  #fill(dice: Dice, ends: Dice): void {
    const { db, disk, ledger, loop, topics, instance } = this.#scene;
    const engine = new Engine(
      '/nowhere/jobs.db',
      { db, wasUnclean: false, wasChecked: false },
      {
        ...{ clock: () => loop.wall - 1_000, monotonic: () => 0, keepHistory: true },
        ...{ shortestRetentionMs: 3_600_000, space: disk.space, recoverHoldMs: 0, clockHoldMs: 0 },
        ...{ onDamage: () => {}, diskReserveBytes: 1_048_576 },
      },
    );
    const taken = new Set<string>();
    let n = 0;
    const push = (delayMs: number, names = topics.names, from = dice) => {
      const key = { topic: from.pick(names), id: `job ${from.below(idsOfTopic)}` };
      if (taken.has(keyOf(key))) return null;
      taken.add(keyOf(key));
      const body = Buffer.from(`l${n};${'x'.repeat(dice.below(60))}`);
      for (const each of ledger.all) each.knows(`l${n}`, body);
      n += 1;
      const job: PushJob = {
        ...key,
        ...{ when: { delayMs }, mode: 'replace', priority: 'normal', contentType: 'text/plain', body },
      };
      engine.push(job);
      return key;
    };
    /** Of a notifier that died with the daemon before, or of a client. */
    const reserve = (owner: Owner = { instance, incarnation: 0 }) => {
      const request = { max: 1, others: { room: 1, leaseMs }, topics: new Map() };
      return engine.moves.reserve({ ...request, owner }).jobs[0];
    };
    const kinds = ['retried', 'dead', 'reserved'] as const;
    const pasts = Array.from({ length: dice.below(jobsMax / 2) }, () =>
      dice.pick(topics.pulled.length === 0 ? kinds : ([...kinds, 'pulled', 'pulled'] as const)),
    );
    engine.begin('full');
    for (const past of pasts) {
      const isPulled = past === 'pulled';
      push(0, isPulled ? topics.pulled : topics.names);
      const job = reserve(isPulled ? pullOwner : undefined);
      if (job === undefined) continue;
      if (isPulled) this.#pulled.push({ job, until: loop.wall - 1_000 + leaseMs, isUsed: false });
      if (past === 'retried') engine.retry({ ...job, delayMs: 1 + dice.below(20_000), attempt });
      if (past !== 'dead') continue;
      engine.bury({ ...job, reason: 'attempts_exhausted', attempt });
      engine.alerts.settle([job.version], 'sent');
    }
    for (let left = 1 + dice.below(jobsMax / 2); left > 0; left -= 1)
      push(dice.chance(0.5) ? 0 : dice.below(30_000));
    for (let left = ends.below(endedMax); left > 0; left -= 1) {
      const key = push(0, topics.names, ends);
      if (key !== null) engine.cancel(key);
    }
    engine.commit();
  }

  /** Of dq-store, whose jobs.db is left. */
  follow(engine: Engine): void {
    const { disk, judge, ledger, mails } = this.#scene;
    let notes: (() => void)[] = [];
    const { leaving, moves } = engine;
    for (const step of ['begin', 'page', 'end', 'closed'] as const) {
      const act = leaving[step].bind(leaving) as (...given: readonly unknown[]) => unknown;
      Object.assign(leaving, {
        [step]: (...given: readonly unknown[]) => {
          this.#happened(step);
          return act(...given);
        },
      });
    }
    const forget = leaving.forget.bind(leaving);
    leaving.forget = (jobs) => {
      const listed = this.#stored();
      forget(jobs);
      const kept = this.#stored();
      for (const [key, { version }] of listed) if (!kept.has(key)) this.#checkForgotten(key, version);
      this.#happened('forget');
    };
    const ends = (key: JobKey & { readonly version?: number | undefined }) => {
      const version = key.version ?? this.#stored().get(keyOf(key))?.version ?? 0;
      return () => void this.#ended.set(keyOf(key), version);
    };
    const { ack, retry, bury, cancel } = engine;
    const stores = ({ body }: Pick<PushJob, 'body'>, version: number) => {
      const tag = tagOf(Buffer.from(body));
      notes.push(() => {
        for (const each of ledger.all) each.knows(tag, Buffer.from(body));
        ledger.first.stored.set(tag, version);
        this.#pushed.add(tag);
        this.#versions.add(version);
      });
    };
    /** The outcome job of an end arrives as a pushed one. */
    const follows = ({ outcome }: Pick<BuryItem, 'outcome'>) => {
      if (outcome === undefined) return;
      const { job, short } = outcome;
      const row = this.#stored().get(keyOf(job));
      if (row !== undefined) stores(disk.isReserveUsed ? { body: short } : job, row.version);
    };
    const finished = (verb: 'ack' | 'retry' | 'bury', end = () => {}) =>
      notes.push(() => {
        ledger.first.counts[verb] = (ledger.first.counts[verb] ?? 0) + 1;
        end();
      });
    engine.ack = (item) => {
      const outcome = ack(item);
      if (outcome.kind === 'acked') {
        finished('ack', ends(item));
        follows(item);
      }
      return outcome;
    };
    engine.retry = (item) => {
      const outcome = retry(item);
      if (outcome.kind === 'retried') finished('retry');
      return outcome;
    };
    engine.bury = (item) => {
      const outcome = bury(item);
      if (outcome.kind === 'buried') {
        finished('bury', () => mails.diedAgain(item.version, item.topic, keyOf(item)));
        follows(item);
      }
      return outcome;
    };
    engine.cancel = (key) => {
      const end = ends(key);
      const outcome = cancel(key);
      if (outcome.kind === 'cancelled') notes.push(end);
      return outcome;
    };
    const reserve = moves.reserve.bind(moves);
    moves.reserve = (...given) => {
      const reserved = reserve(...given);
      judge.check(reserved.jobs.length === 0, '15 jobs.db delivers nothing while Redis is in force', () =>
        reserved.jobs.map(keyOf).join(', '),
      );
      return reserved;
    };
    const push = engine.push;
    engine.push = (job) => {
      const outcome = push(job);
      if (outcome.kind === 'stored') stores(job, outcome.version);
      return outcome;
    };
    const [commit, rollback] = [engine.commit.bind(engine), engine.rollback.bind(engine)];
    engine.commit = () => {
      const hints = commit();
      for (const note of notes.splice(0)) note();
      return hints;
    };
    engine.rollback = () => {
      notes = [];
      rollback();
    };
  }

  holds(key: JobKey): boolean {
    return this.#stored().has(keyOf(key));
  }

  /** jobs.db has `version` of the job, a later one, or its end: the journal has it when the job arrives. */
  took(key: string, version: number): boolean {
    const kept = this.#stored().get(key)?.version ?? 0;
    return Math.max(kept, this.#ended.get(key) ?? 0) >= version;
  }

  #happened(step: string): void {
    this.#scene.occasions.happened('moving', step);
  }

  #has(key: string, version: number): boolean {
    const { ledger } = this.#scene;
    const entry = ledger.entries.get(key);
    return (entry?.version ?? 0) >= version || ledger.endedVersion(key) >= version;
  }

  #checkForgotten(key: string, version: number): void {
    this.#count('left jobs arrived');
    this.#forgotten.set(key, version);
    this.#scene.judge.check(
      this.#has(key, version),
      '15 jobs.db forgets only what Redis has',
      () => `${key}, version ${version}`,
    );
  }

  #checkPushed({ key, version }: { readonly key: string; readonly version: number }, old: number): void {
    const row = this.#stored().get(key);
    if (!this.#options.isAlone || row === undefined || row.version >= version) return;
    this.#scene.judge.check(
      !row.isReserved && (old >= row.version || this.#scene.ledger.endedVersion(key) >= row.version),
      '15 a push reaches Redis after what jobs.db has',
      () => `${key}: version ${row.version} is in jobs.db`,
    );
  }

  /** A put, or a row of the journal. What Redis lost may come back without one. */
  #checkArrived({ key, version, tag }: Readonly<Entry>): void {
    const ended = this.#ended.get(key) ?? 0;
    const { judge, ledger } = this.#scene;
    if (this.#pushed.has(tag) && !ledger.first.entries.has(key)) ledger.first.stored.delete(tag);
    if (!this.#options.isAlone && this.#versions.has(version))
      this.#scene.journal?.laws.arrived(key, version);
    judge.check(
      ended < version || ledger.losses > 0,
      '15 a job that has ended does not arrive',
      () => `${key}, version ${version}: version ${ended} ended before`,
    );
  }

  /** A replica that becomes the master is some seconds behind at most (redis-faults.ts). */
  #checkKept(): void {
    for (const [key, version] of this.#forgotten)
      this.#scene.judge.check(
        this.#has(key, version),
        '15 a failover loses nothing that jobs.db has forgotten',
        () => `${key}, version ${version}`,
      );
  }

  /** A push with a window that no job or end on Redis has answered. */
  #checkWindow({ key, tag }: Readonly<Entry>): void {
    const { judge, ledger, loop, windows } = this.#scene;
    const isUnknown = ledger.steps > 0 || ledger.losses > 0 || ledger.endedVersion(key) > 0;
    if (isUnknown || !this.#options.isAlone) return;
    const ends = this.#endOf() as [string, string, number][];
    const [, , endedAt] = ends.find(([topic, id]) => keyOf({ topic, id }) === key) ?? [];
    judge.check(
      endedAt === undefined || loop.wall - endedAt >= windows.of(tag),
      '15 a push within the window of an end in jobs.db stores nothing',
      () => `push ${tag} of ${key}: the job ended ${loop.wall - (endedAt ?? 0)} ms ago`,
    );
  }

  plan(dice: Dice): readonly Action[] {
    const begin: Action = { name: 'move', at: dice.next() * beginMsMax, act: (own) => this.#begin(own) };
    const shown = this.#pulled.map(
      (pulled, n): Action => ({
        name: `lease from before ${n}`,
        at: 1_000 + dice.next() * beginMsMax,
        act: (own) => this.#show(own, pulled),
      }),
    );
    const cancels = Array.from(
      { length: dice.below(4) },
      (_, n): Action => ({
        name: `call on a left job ${n}`,
        at: 1_000 + dice.next() * 1.5 * beginMsMax,
        act: (own) => this.#call(own),
      }),
    );
    return [begin, ...shown, ...cancels];
  }

  #begin(dice: Dice): void {
    this.#ask(dice, 'move the jobs of jobs.db', async ({ ctx }) => {
      if (ctx.leaving === undefined) throw new Error('the world has no jobs.db that is left');
      const { jobs } = await ctx.leaving.calls.begin();
      return `${jobs} jobs move`;
    });
  }

  #ask(dice: Dice, what: string, act: (server: Server) => Promise<string>): void {
    this.#options.operators.ask(dice, what, act, this.#options.servers());
  }

  /** The client of a lease sends a verb. */
  #show(dice: Dice, pulled: Pulled): void {
    const { judge, ledger, loop } = this.#scene;
    const { job, until } = pulled;
    const { topic, id, version, token, failures, dueAt } = job;
    const key = keyOf(job);
    const text = leaseText({ topic, id, version, token, failures, dueAt, pulledAt: dueAt }, leaseKey);
    const ask = dice.pick<LeaseAsk>([
      ...([
        { verb: 'ack' },
        { verb: 'ack' },
        { verb: 'ack' },
        { verb: 'release' },
        { verb: 'bury' },
      ] as const),
      { verb: 'nack', delayMs: dice.below(4_000) },
      { verb: 'extend', ms: 1_000 + dice.below(15_000) },
    ]);
    this.#ask(dice, `${ask.verb} of a lease from before: ${key}`, async ({ desk }) => {
      const wasUsed = pulled.isUsed;
      pulled.isUsed = true;
      const [result] = await desk.answer([text], ask);
      const code = result?.code ?? 'done';
      const isHeld = !wasUsed && ledger.steps === 0 && ledger.losses === 0 && loop.wall < until - earlyMs;
      if (code === 'lease_lost')
        judge.check(!isHeld, '15 a move ends no lease of a pull client', () => `${ask.verb} of ${key}`);
      const isEnded = (this.#ended.get(key) ?? 0) >= version || ledger.endedVersion(key) >= version;
      if (code === 'done' && ask.verb === 'ack')
        judge.check(isEnded, '3 a reply follows the COMMIT', () => `${ask.verb} of ${key}`);
      this.#count(`lease from before: ${ask.verb} ${code}`);
      return code;
    });
  }

  /** On an id that jobs.db has, or had. */
  #call(dice: Dice): void {
    if (this.#left.length === 0) return;
    const left = dice.pick(this.#left);
    const { topic, id } = left;
    const verb = dice.pick(['cancel', 'cancel', 'run', 'get'] as const);
    this.#ask(dice, `${verb} of a left job: ${keyOf(left)}`, async ({ ctx }) => {
      const { jobs } = ctx.store;
      if (verb === 'get') return (await jobs.get({ topic, id }))?.state ?? 'absent';
      const [outcome] = await jobs[verb]([{ topic, id }]);
      const kind = outcome?.kind ?? 'none';
      if (kind === 'cancelled') {
        const before = this.#ended.get(keyOf(left)) ?? 0;
        this.#ended.set(keyOf(left), Math.max(before, left.version));
      }
      this.#count(`call on a left job: ${verb} ${kind}`);
      return kind;
    });
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  /** The move begins at last. */
  end(): void {
    const { loop } = this.#scene;
    if (this.whyBusy === null) return;
    if (this.#meta().length === 0) this.#begin(loop.stream('last move'));
    loop.after(againMs, null, 'operator', () => this.end());
  }

  get whyBusy(): string | null {
    const left = this.#stored().size;
    if (left > 0) return `${left} jobs are in jobs.db`;
    return this.#meta().length > 0 ? 'Redis has not closed the move' : null;
  }

  checkEnd(): void {
    const { judge, ledger, journal, redis } = this.#scene;
    const open = this.whyBusy === null ? (redis?.openMoves() ?? []) : [];
    judge.check(open.length === 0, '15 an ended move is closed', () => open.join(', '));
    if (ledger.losses > 0 && journal === null) return;
    for (const { version, ...left } of this.#left) {
      const key = keyOf(left);
      const isThere = this.#has(key, version) || (this.#ended.get(key) ?? 0) >= version;
      judge.check(isThere, '15 each job arrives', () => key);
    }
  }
}
