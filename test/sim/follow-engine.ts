// Follows an engine: reports each operation to the ledger, and compares the tables with it.
// Invariant: a result is read within the operation, because later operations of the same transaction change
// the tables, and counts at the COMMIT. After a rollback it does not count.

import type { Dice } from '../../scripts/dice.ts';
import type { Lease } from '../../src/core/job.ts';
import type { BuryItem } from '../../src/ports/job-store.ts';
import type { Database } from '../../src/runtime/database.ts';
import type { Engine } from '../../src/store/sqlite/engine/engine.ts';
import { invariants } from '../../src/store/sqlite/file/invariants.ts';
import type { Disk } from './disk.ts';
import type { Judge } from './judge.ts';
import { describe, type Following, type How, keyOf, type Ledger, type StoredJob } from './ledger.ts';
import type { Loop } from './loop.ts';
import type { MailServer } from './mail.ts';
import type { Occasions } from './occasions.ts';

export interface FollowOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  readonly ledger: Ledger;
  readonly mails: MailServer;
  readonly db: Database;
  readonly occasions: Occasions;
  readonly disk: Disk;
  readonly retentionMs: number;
  /** decides after which transactions the tables are compared */
  readonly dice: Dice;
}

/** Share of the transactions after which the tables are compared as a whole. */
const wholeShare = 0.1;

export class Follower {
  readonly #options: FollowOptions;
  #notes: (() => void)[] = [];
  /** versions */
  #inHistory: () => ReadonlySet<number> = () => new Set();
  commits = 0;

  constructor(options: FollowOptions) {
    this.#options = options;
  }

  follow(engine: Engine): void {
    const { ledger, loop, retentionMs, db, disk, mails } = this.#options;
    const { alerts, history, moves, recovery, dead: deadPages, jobCounts } = engine;
    const select = (sql: string) => db.prepare(sql, { returnArrays: true });
    const held = select('SELECT token FROM job WHERE state = 2');
    const dead = select('SELECT version FROM job WHERE state = 3');
    const ended = select('SELECT version FROM job WHERE state = 4');
    const early = select('SELECT version FROM job WHERE state = 1 AND due > ?');
    const numbers = (statement: typeof held, ...given: number[]): ReadonlySet<number> =>
      new Set((statement.all(...given) as [number][]).map(([n]) => n));

    const note = <A extends unknown[], R, S = undefined>(
      act: (...given: A) => R,
      apply: (result: R, given: A, seen: S) => void,
      look: (...given: NoInfer<A>) => S = () => undefined as S,
    ) => {
      return (...given: A): R => {
        const result = act(...given);
        // Answered from memory: nothing changed.
        if (!engine.inTransaction) return result;
        const seen = look(...given);
        this.#notes.push(() => apply(result, given, seen));
        return result;
      };
    };
    engine.push = note(engine.push, (r, [job]) => ledger.pushed(job, r));
    engine.cancel = note(engine.cancel, (r, [key]) => ledger.cancelled(key, r));
    engine.run = note(engine.run, (r, [key]) => ledger.moved('run', key, r));
    engine.reschedule = note(engine.reschedule, (r, [item]) => ledger.moved('reschedule', item, r));
    engine.requeue = note(engine.requeue, (r, [key]) => ledger.moved('requeue', key, r));
    engine.edit = note(engine.edit, (r, [item]) => ledger.edited(item, r));
    const underId = db.prepare(
      `SELECT job.version, job.due AS dueAt, body.bytes AS body FROM job JOIN topic ON topic.no = job.topic
       LEFT JOIN body ON body.n = job.n WHERE topic.name = ? AND job.id = ? AND job.state < 4`,
    );
    const lookFollowing = ({ outcome }: Pick<BuryItem, 'outcome'>): Following | null => {
      if (outcome === undefined) return null;
      const { topic, id } = outcome.job;
      return { key: { topic, id }, row: (underId.get(topic, Buffer.from(id)) as never) ?? null };
    };
    const endsJob =
      (verb: 'ack' | 'bury') =>
      (r: { readonly kind: string }, [item]: [Lease & Pick<BuryItem, 'outcome'>], seen: Following | null) => {
        ledger.finished(verb, item, r.kind);
        ledger.followed(verb, item, r.kind === 'acked' || r.kind === 'buried', seen);
      };
    engine.ack = note(engine.ack, endsJob('ack'), lookFollowing);
    engine.retry = note(engine.retry, (r, [item]) => ledger.finished('retry', item, r.kind));
    engine.bury = note(engine.bury, endsJob('bury'), lookFollowing);
    engine.release = note(engine.release, (r, [item]) => ledger.finished('release', item, r.kind));
    engine.extend = note(engine.extend, (r, [item]) => ledger.extended(item, r));
    const reserve = moves.reserve.bind(moves);
    moves.reserve = note(reserve, (r, [{ owner }]) => ledger.reserved(owner, r.jobs));
    const promote = moves.promote.bind(moves);
    const lookEarly = () => numbers(early, loop.wall);
    moves.promote = note(promote, (_, __, versions) => ledger.promoted(versions), lookEarly);
    const left = () => ({ held: numbers(held), dead: numbers(dead), isFull: disk.isReserveUsed });
    const recovered = (how: How) => (_: unknown, __: unknown[], seen: ReturnType<typeof left>) =>
      ledger.recovered(how, { ...seen, instance: null });
    recovery.expired = note(recovery.expired.bind(recovery), recovered('expired'), left);
    recovery.ofOwners = note(recovery.ofOwners.bind(recovery), recovered('owner'), left);
    recovery.releaseUnheld = note(recovery.releaseUnheld.bind(recovery), recovered('unheld'), left);
    const expire = engine.expire.bind(engine);
    engine.expire = note(expire, (_, __, { dead }) => ledger.swept(dead, retentionMs), left);
    const stored = () => this.#stored();
    const requeue = deadPages.requeue.bind(deadPages);
    deadPages.requeue = note(requeue, (_, [{ below = null }], jobs) => ledger.requeued(jobs, below), stored);
    const purge = deadPages.purge.bind(deadPages);
    deadPages.purge = note(
      purge,
      (_, [{ below = null }], jobs) => ledger.purged(jobs, 'purge', below),
      stored,
    );
    const purgeTopic = jobCounts.purgeTopic.bind(jobCounts);
    jobCounts.purgeTopic = note(purgeTopic, (_, __, jobs) => ledger.purged(jobs, 'purge topic'), stored);
    alerts.settle = note(alerts.settle.bind(alerts), (_, given) => mails.settled(...given));
    const forget = engine.forget.bind(engine);
    engine.forget = (...given) => {
      const before = numbers(ended);
      const result = forget(...given);
      const left = numbers(ended);
      const removed = [...before].filter((version) => !left.has(version));
      if (removed.length > 0) this.#notes.push(() => ledger.forgotten(removed));
      return result;
    };
    history.forgetEarly = note(history.forgetEarly.bind(history), () => ledger.historyShrank());
    this.#inHistory = () => numbers(ended);
    this.#followTransactions(engine);
  }

  #followTransactions(engine: Engine): void {
    this.#notes = [];
    const commit = engine.commit.bind(engine);
    const rollback = engine.rollback.bind(engine);
    const inSavepoint = engine.inSavepoint.bind(engine);
    engine.commit = () => {
      try {
        const hints = commit();
        this.#committed();
        return hints;
      } catch (error) {
        const { disk } = this.#options;
        if (disk.hasFailed && disk.wasApplied) this.#committed();
        throw error;
      }
    };
    engine.inSavepoint = <T>(step: () => T): T => {
      const noted = this.#notes.length;
      try {
        return inSavepoint(step);
      } catch (error) {
        this.#notes.length = noted;
        throw error;
      }
    };
    engine.rollback = () => {
      this.#notes = [];
      rollback();
    };
  }

  #committed(): void {
    const notes = this.#notes;
    this.#notes = [];
    for (const apply of notes) apply();
    this.commits += 1;
    this.#options.ledger.committed();
    this.#checkAlerts();
    this.#options.ledger.checkTickEnds(this.#inHistory);
    if (notes.length > 0 && this.#options.dice.chance(wholeShare)) this.checkTables();
    this.#options.occasions.happened('commit');
  }

  #checkAlerts(): void {
    const { ledger, judge, db } = this.#options;
    for (const { key, version } of ledger.takeDead()) {
      const { n } = db.prepare('SELECT count(*) AS n FROM alert WHERE version = ?').get(version) as {
        n: number;
      };
      judge.check(n === 1, 'decision 8: each death has its alert', () => `${key}: ${n} alerts`);
    }
  }

  /** Compares everything that is stored with the ledger. */
  checkTables(): void {
    const { ledger, judge, db } = this.#options;
    for (const { what, sql } of invariants) {
      const found = db.prepare(sql).all();
      judge.check(found.length === 0, `1 the tables have no ${what}`, () => JSON.stringify(found));
    }
    const rows = this.#rows();
    judge.check(
      rows.length === ledger.entries.size,
      '1 no job is lost or invented',
      () => `${rows.length} are stored, the ledger has ${ledger.entries.size}`,
    );
    for (const row of rows) {
      const entry = ledger.entries.get(keyOf(row));
      const isSame =
        entry?.version === row.version &&
        (entry.state === 'dead') === (row.state === 3) &&
        (entry.lease !== null) === (row.state === 2);
      judge.check(
        isSame,
        '1 one state',
        () => `${keyOf(row)} is stored in state ${row.state}, version ${row.version}; ${describe(entry)}`,
      );
    }
  }

  #stored(): ReadonlyMap<string, StoredJob> {
    return new Map(
      this.#rows().map((row) => [
        keyOf(row),
        { version: row.version, dueAt: row.due, isDead: row.state === 3 },
      ]),
    );
  }

  #rows() {
    return this.#options.db
      .prepare(
        `SELECT topic.name AS topic, CAST(job.id AS TEXT) AS id, job.state, job.version, job.due
         FROM job JOIN topic ON topic.no = job.topic WHERE state < 4`,
      )
      .all() as { topic: string; id: string; state: number; version: number; due: number }[];
  }
}
