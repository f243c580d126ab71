// The jobs that a world on Redis has in jobs.db from before, and the operator who moves them, with the rules
// on a move: nothing is delivered from jobs.db, what it forgets is in Redis or has ended there, and a push of
// an id reaches Redis only after what jobs.db has of it. That an ended job does not come back, and that each
// job ends, is a rule of the ledger.

import type { Dice } from '../../../scripts/dice.ts';
import type { AttemptRecord, JobKey } from '../../../src/core/job.ts';
import type { PushJob } from '../../../src/ports/job-store.ts';
import { Engine } from '../../../src/store/sqlite/engine/engine.ts';
import { keyOf } from '../ledger.ts';
import type { Scene } from '../scene.ts';
import type { Action, Operators, Work } from '../works.ts';

/** virtual ms */
const beginMsMax = 20_000;
const againMs = 1_000;
const jobsMax = 14;
/** As producers choose them (producers.ts), so that they meet. */
const idsOfTopic = 8;
/** of a notifier that died with the daemon before */
const deadOwner = 0;

const attempt: AttemptRecord = {
  ...{ attempt: 1, startedAt: 0, durationMs: 1, outcome: 'failed', reason: 'status', status: 500 },
  ...{ replyExcerpt: '', notifier: 'dq-notifier-0', host: 'vm' },
};

interface Row extends JobKey {
  readonly version: number;
  readonly isReserved: boolean;
}

export class LeftJobs implements Work {
  readonly #scene: Scene;
  readonly #operators: Operators;
  readonly #rows: () => readonly unknown[][];
  readonly #meta: () => readonly unknown[][];
  readonly #left: readonly Row[];
  readonly counts = { 'left jobs': 0, 'left jobs arrived': 0 };

  constructor(scene: Scene, operators: Operators) {
    const { db, ledger, loop } = scene;
    this.#scene = scene;
    this.#operators = operators;
    const all = (sql: string) => {
      const statement = db.prepare(sql, { returnArrays: true });
      return () => statement.all() as unknown[][];
    };
    this.#rows = all(
      `SELECT topic.name, CAST(job.id AS TEXT), job.version, job.state = 2 FROM job
       JOIN topic ON topic.no = job.topic WHERE job.state < 4`,
    );
    this.#meta = all("SELECT k FROM meta WHERE k IN ('moving', 'moved')");
    this.#fill(loop.stream('left jobs'));
    this.#left = [...this.#stored().values()];
    this.counts['left jobs'] = this.#left.length;
    ledger.first.listeners.push({
      pushed: (entry, old) => this.#checkPushed(entry, old?.version ?? 0),
    });
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
  #fill(dice: Dice): void {
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
    const push = (delayMs: number) => {
      const key = { topic: dice.pick(topics.names), id: `job ${dice.below(idsOfTopic)}` };
      if (taken.has(keyOf(key))) return;
      taken.add(keyOf(key));
      const body = Buffer.from(`l${n};${'x'.repeat(dice.below(60))}`);
      ledger.first.knows(`l${n}`, body);
      n += 1;
      const job: PushJob = {
        ...key,
        ...{ when: { delayMs }, mode: 'replace', priority: 'normal', contentType: 'text/plain', body },
      };
      engine.push(job);
    };
    const reserve = () => {
      const request = { max: 1, others: { room: 1, leaseMs: 5_000 }, topics: new Map() };
      const owner = { instance, incarnation: deadOwner };
      return engine.moves.reserve({ ...request, owner }).jobs[0];
    };
    const pasts = Array.from({ length: dice.below(jobsMax / 2) }, () =>
      dice.pick(['retried', 'dead', 'reserved'] as const),
    );
    engine.begin('full');
    for (const past of pasts) {
      push(0);
      const job = reserve();
      if (job === undefined) continue;
      if (past === 'retried') engine.retry({ ...job, delayMs: 1 + dice.below(20_000), attempt });
      if (past !== 'dead') continue;
      engine.bury({ ...job, reason: 'attempts_exhausted', attempt });
      engine.alerts.settle([job.version], 'sent');
    }
    for (let left = 1 + dice.below(jobsMax / 2); left > 0; left -= 1)
      push(dice.chance(0.5) ? 0 : dice.below(30_000));
    engine.commit();
  }

  /** Of dq-store, whose jobs.db is left. */
  follow(engine: Engine): void {
    const { judge, ledger } = this.#scene;
    let notes: (() => void)[] = [];
    const { leaving, moves } = engine;
    const forget = leaving.forget.bind(leaving);
    leaving.forget = (jobs) => {
      const listed = this.#stored();
      forget(jobs);
      const kept = this.#stored();
      for (const [key, { version }] of listed) if (!kept.has(key)) this.#checkForgotten(key, version);
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
      if (outcome.kind === 'stored') {
        const tag = job.body.toString().split(';')[0] ?? '';
        notes.push(() => {
          ledger.first.knows(tag, Buffer.from(job.body));
          ledger.first.stored.set(tag, outcome.version);
        });
      }
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

  #has(key: string, version: number): boolean {
    const { ledger } = this.#scene;
    const entry = ledger.entries.get(key);
    return (entry?.version ?? 0) >= version || ledger.endedVersion(key) >= version;
  }

  #checkForgotten(key: string, version: number): void {
    this.counts['left jobs arrived'] += 1;
    this.#scene.judge.check(
      this.#has(key, version),
      '15 jobs.db forgets only what Redis has',
      () => `${key}, version ${version}`,
    );
  }

  #checkPushed({ key, version }: { readonly key: string; readonly version: number }, old: number): void {
    const row = this.#stored().get(key);
    if (row === undefined || row.version >= version) return;
    this.#scene.judge.check(
      !row.isReserved && (old >= row.version || this.#scene.ledger.endedVersion(key) >= row.version),
      '15 a push reaches Redis after what jobs.db has',
      () => `${key}: version ${row.version} is in jobs.db`,
    );
  }

  plan(dice: Dice): readonly Action[] {
    return [{ name: 'move', at: dice.next() * beginMsMax, act: (own) => this.#begin(own) }];
  }

  #begin(dice: Dice): void {
    this.#operators.ask(dice, 'move the jobs of jobs.db', async ({ ctx }) => {
      if (ctx.leaving === undefined) throw new Error('the world has no jobs.db that is left');
      const { jobs } = await ctx.leaving.calls.begin();
      return `${jobs} jobs move`;
    });
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
    const { judge, ledger } = this.#scene;
    if (ledger.losses > 0) return;
    for (const { version, ...key } of this.#left)
      judge.check(this.#has(keyOf(key), version), '15 each job arrives', () => keyOf(key));
  }
}
