// The row of the leader in a world whose instances have the option `standby`, and the rules on it. The
// statements of dq run on it, each with a way there and back; MySQL has a clock of its own.
// Invariant: what the row says at the moment of a call decides whether the call is allowed, not what a
// notifier believes.

import type { CompiledQuery, Kysely, QueryResult } from 'kysely';
import { limits } from '../../src/core/limits.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import type { LeaderRow } from '../../src/ports/registry.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import type { RegistrySchema } from '../../src/registry/sql/schema/registry-schema.ts';
import { kyselyOver } from '../../src/registry/sql/sqlite/sqlite-engine.ts';
import { giveUp, lead, readLeader } from '../../src/registry/sql/tables/registry-leader.ts';
import { type Database, openDatabase, type Statement } from '../../src/runtime/database.ts';
import type { Instances } from './instances.ts';
import type { Judge } from './judge.ts';
import { type CallRecord, seconds } from './ledger.ts';
import type { Loop } from './loop.ts';
import type { Network } from './network.ts';
import type { Process } from './process.ts';
import type { TopicTable } from './topics.ts';

/** Epoch ms of MySQL at the start of a world: no machine of dq has this clock. */
const mysqlAtStart = 1_700_000_000_000;
/** Messages and turns between a moment of the row and what follows it. */
const messagesMs = 500;
/** An instance that works so long has asked for the row, also after calls without an answer. */
const askedMs = limits.mysqlCallMs + notifierLimits.leaderEveryMs + messagesMs;
/** Longer than each instance waits for an answer before it delivers. */
const awayMsMax = 45_000;
/** Without an answer for so long each instance delivers. */
const aloneMs = notifierLimits.leaderAwayMs + 2 * notifierLimits.leaderEveryMs + messagesMs;
/** The share of the instances that begin with the option. */
const standbyShare = 0.8;

const schema = `CREATE TABLE leader (only INTEGER PRIMARY KEY, instance INTEGER NOT NULL, until INTEGER NOT NULL);
CREATE TABLE leader_process (instance INTEGER NOT NULL, incarnation INTEGER NOT NULL, until INTEGER NOT NULL,
  PRIMARY KEY (instance, incarnation));`;

interface Row {
  readonly instance: number;
  readonly until: number;
}

/** Of all worlds, one after the other. */
interface Tables {
  readonly database: Database;
  readonly db: Kysely<RegistrySchema>;
  readonly row: Statement;
  now: () => number;
}
let made: Tables | null = null;

function tables(): Tables {
  if (made !== null) return made;
  const database = openDatabase(':memory:');
  database.exec(schema);
  const row = database.prepare('SELECT instance, until FROM leader');
  made = { database, db: kyselyOver<RegistrySchema>(database), row, now: () => 0 };
  const { now } = made;
  database.function('mysql_now', () => (made ?? { now }).now());
  return made;
}

/** What MySQL has in other words. */
const dialectOf = (text: string): string =>
  text
    .replaceAll('CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)', 'mysql_now()')
    .replace('ON DUPLICATE KEY UPDATE', 'ON CONFLICT DO UPDATE SET');

export interface LeadOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  readonly network: Network;
  /** of a registry that answers calls, or not */
  readonly topics: Pick<TopicTable, 'isAway'>;
  /** Nothing goes wrong but reloads. */
  readonly isOrderly: boolean;
}

export class Lead {
  readonly #options: LeadOptions;
  readonly #tables: Tables;
  #row: Row = { instance: 0, until: 0 };
  /** virtual ms of the last answer to a process; absent: none */
  readonly #answeredAt = new Map<Process, number>();
  /** virtual ms of the last statement that renewed the time of a process */
  readonly #renewedAt = new Map<Process, number>();
  readonly #running = new Set<CallRecord>();
  /** instances whose option was removed since they lead */
  readonly #leaving = new Set<number>();
  /** virtual ms since when an instance waits for the row, and nothing keeps it from taking it */
  #wantedSince: number | null = null;
  /** virtual ms since when MySQL does not answer */
  #awaySince: number | null = null;
  readonly counts = {
    'leaders changed': 0,
    'leaders gave up': 0,
    'calls of a leader': 0,
    'calls without MySQL': 0,
  };
  readonly awayMsMax = awayMsMax;

  constructor(options: LeadOptions) {
    this.#options = options;
    const { loop } = options;
    this.#tables = tables();
    this.#tables.now = () => mysqlAtStart + Math.floor(loop.at);
    this.#tables.database.exec(
      'DELETE FROM leader_process; DELETE FROM leader; INSERT INTO leader VALUES (1, 0, 0)',
    );
  }

  /** `prefix`: of the instance */
  isStandbyAtFirst(prefix: string): boolean {
    return this.#options.loop.stream(`${prefix}standby`).chance(standbyShare);
  }

  rowOf(process: Process): LeaderRow {
    const db = this.#clientOf(process);
    const answered = <T>(answer: T): T => {
      this.#answeredAt.set(process, this.#options.loop.at);
      return answer;
    };
    return {
      leader: () => readLeader(db).then(answered),
      lead: (owner, leaseMs) => lead(db, owner, leaseMs).then(answered),
      giveUp: (owner) => giveUp(db, owner),
    };
  }

  /** The next reload of the instance removes the option. */
  mayLeave(instance: number): void {
    this.#leaving.add(instance);
  }

  /** A call begins. */
  called(call: CallRecord): void {
    const { process } = call;
    if (!process.isStandby) return;
    const { judge, loop } = this.#options;
    const { instance, until } = this.#row;
    const isLeader = instance === process.instance && until >= this.#tables.now();
    const withoutMs = loop.at - (this.#answeredAt.get(process) ?? process.bornAt);
    this.counts[isLeader ? 'calls of a leader' : 'calls without MySQL'] += 1;
    judge.check(
      isLeader || withoutMs >= notifierLimits.leaderAwayMs - notifierLimits.leaderEveryMs,
      'standby: one instance calls jobs',
      () => `${process.title} calls ${call.lease.key}, the row of ${instance} ends in ${this.#leftMs} ms`,
    );
    this.#running.add(call);
  }

  /** Several times a second. */
  look({ all }: Instances): void {
    const { loop, judge, topics, network } = this.#options;
    if (!topics.isAway) this.#awaySince = null;
    else this.#awaySince ??= loop.at;
    const isQuick = !topics.isAway && network.slowUntil < loop.at && network.lateUntil < loop.at;
    const isWanted =
      isQuick &&
      this.#leftMs <= 0 &&
      all.some(
        (master) =>
          master.whyIncomplete === null &&
          master.processes.every(({ lastPauseEnd }) => lastPauseEnd < loop.at) &&
          master.living('notifier').every(({ process }) => process.isStandby && !process.isLeaving),
      );
    if (!isWanted) this.#wantedSince = null;
    else this.#wantedSince ??= loop.at;
    judge.check(
      this.#wantedSince === null || loop.at - this.#wantedSince <= askedMs,
      'standby: another instance leads soon',
      () => `no instance leads for ${seconds(loop.at - (this.#wantedSince ?? 0))}`,
    );
  }

  /** An instance that works calls jobs. */
  delivers({ all }: Instances): boolean {
    const { loop } = this.#options;
    if (this.#awaySince !== null) return loop.at - this.#awaySince > aloneMs;
    return (
      this.#leftMs > 0 ||
      all.some((master) => master.living('notifier').some(({ process }) => !process.isStandby))
    );
  }

  get #leftMs(): number {
    return this.#row.until - this.#tables.now();
  }

  /** Its statements reach MySQL also after the process has ended or while it stands still. */
  #clientOf(process: Process): Kysely<RegistrySchema> {
    const { db } = this.#tables;
    const executor = db.getExecutor();
    const executeQuery = (query: CompiledQuery): Promise<QueryResult<unknown>> =>
      this.#sent(process, () => executor.executeQuery({ ...query, sql: dialectOf(query.sql) }), query.sql);
    const sending = new Proxy(executor, {
      get: (_, name) => {
        if (name === 'executeQuery') return executeQuery;
        const value = executor[name as keyof typeof executor] as unknown;
        return typeof value === 'function' ? value.bind(executor) : value;
      },
    });
    return { getExecutor: () => sending } as unknown as Kysely<RegistrySchema>;
  }

  #sent<T>(process: Process, run: () => Promise<T>, text: string): Promise<T> {
    const { loop, network, topics } = this.#options;
    const there = network.latency() + network.extra();
    const back = network.latency() + network.extra();
    const isLate = there + back > limits.mysqlCallMs;
    return new Promise((resolve, reject) => {
      if (!process.sends()) return;
      const fail = (kind: 'unknown' | 'not_stored') => reject(new StoreError({ kind, code: 'busy' }));
      if (isLate) loop.after(limits.mysqlCallMs, process, 'no answer of MySQL', () => fail('unknown'));
      loop.after(there, null, 'MySQL', () => {
        const answer = (act: () => void) => {
          if (!isLate) loop.after(back, process, 'answer of MySQL', act);
        };
        if (topics.isAway) {
          answer(() => fail('not_stored'));
          return;
        }
        void run().then((result) => {
          this.#ran(process, text);
          answer(() => resolve(result));
        });
      });
    });
  }

  /** A statement has changed the row, or not. */
  #ran(process: Process, text: string): void {
    const { loop, judge, isOrderly } = this.#options;
    if (text.startsWith('INSERT')) this.#renewedAt.set(process, loop.at);
    const before = this.#row;
    this.#row = this.#tables.row.get() as Row;
    const { instance, until } = this.#row;
    if (instance !== before.instance) {
      this.counts['leaders changed'] += 1;
      loop.tell(`Instance ${instance} leads.`);
      const isMoved = before.instance === 0 || this.#leaving.delete(before.instance);
      judge.check(
        isMoved || !isOrderly,
        'standby: a reload that keeps it does not change the leader',
        () => `${instance} leads after ${before.instance}`,
      );
    }
    if (until >= before.until) return;
    this.counts['leaders gave up'] += 1;
    loop.tell(`Instance ${instance} gives up the lead.`);
    for (const call of this.#running) {
      const { process: caller, endedAt, lease } = call;
      if (endedAt !== null || !caller.isAlive) this.#running.delete(call);
      else
        judge.check(
          caller.instance !== instance ||
            (this.#renewedAt.get(caller) ?? Number.NEGATIVE_INFINITY) <= loop.at - notifierLimits.leaderMs,
          'standby: a leader gives up after its last call',
          () => `${caller.title} calls ${lease.key}`,
        );
    }
  }
}
