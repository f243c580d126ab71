// One instance of dq on virtual time, or two over one Redis: the real masters over simulated forks, the real
// dq-store owners over databases in memory, the real roles, producers, receivers and faults. It runs while
// faults happen, then in calm until each accepted job has ended and the daemons are complete.
// Invariant: every choice comes from the seed, so two runs of one plan are equal in every event.

import type { Dice } from '../../scripts/dice.ts';
import { type Config, options as configOptions, type OptionName } from '../../src/config/options.ts';
import type { StatName } from '../../src/core/series.ts';
import { type Database, openDatabase } from '../../src/runtime/database.ts';
import { schema } from '../../src/store/sqlite/file/schema.ts';
import { Calls } from './calls.ts';
import { Port } from './channel.ts';
import { DeadNotifiers } from './dead-notifiers.ts';
import { Deadlines } from './deadlines.ts';
import { Disk } from './disk.ts';
import {
  type FaultKind,
  Faults,
  filling,
  harmless,
  kindsOf,
  orderly,
  renewing,
  type StoreName,
} from './faults.ts';
import { Follower } from './follow-engine.ts';
import { Instances } from './instances.ts';
import { JournalSide, mysqlUrl } from './journal/journal-side.ts';
import { Judge, type Violation } from './judge.ts';
import { keepStatements } from './kept-statements.ts';
import { Lead } from './lead.ts';
import { describe, type Entry, Ledger } from './ledger.ts';
import { Ledgers } from './ledgers.ts';
import { Loop } from './loop.ts';
import { MailServer } from './mail.ts';
import { Network } from './network.ts';
import { Occasions } from './occasions.ts';
import { OperationRules } from './operation-rules.ts';
import { OperatorsWork } from './operations.ts';
import { Producers } from './producers.ts';
import { PullClients } from './pull-clients.ts';
import { Punctuality } from './punctuality.ts';
import { Receivers } from './receivers.ts';
import { LeftJobs } from './redis/left-jobs.ts';
import { type RedisGround, RedisSide, redisUrls } from './redis/redis-side.ts';
import { ShardChanges } from './redis/shard-changes.ts';
import { RegistryTables } from './registry.ts';
import { Removals } from './removals.ts';
import type { Scene } from './scene.ts';
import { Schedules } from './schedules.ts';
import { Single } from './single.ts';
import { Ticks } from './ticks.ts';
import { TopicTable } from './topics.ts';
import { UpkeepFiles } from './upkeep-files.ts';
import { Verdicts } from './verdicts.ts';
import { Windows } from './windows.ts';
import { drawWorks, Operators, type Work, type WorkKind } from './works.ts';

export interface Plan {
  readonly seed: number;
  /** default: drawn from the seed */
  readonly faults?: readonly FaultKind[] | undefined;
  /** default: drawn from the seed */
  readonly works?: readonly WorkKind[] | undefined;
  /** parts that are left out, to make a failure smaller */
  readonly without?: readonly string[] | undefined;
  /** sentences of the story that are kept; default none */
  readonly kept?: number;
  /** default: sqlite */
  readonly store?: StoreName | undefined;
  /** default: drawn from the seed */
  readonly shards?: number | undefined;
}

export interface Result {
  /** of everything that happened */
  readonly hash: string;
  readonly events: number;
  /** faults, pushes and verbs that happened */
  readonly parts: readonly string[];
  /** enabled kinds */
  readonly faults: readonly FaultKind[];
  readonly works: readonly WorkKind[];
  readonly violation: Violation | null;
  readonly story: readonly string[];
  readonly numbers: Readonly<Record<string, number>>;
}

/** virtual ms with pushes and faults */
const activeMs = 40_000;
/** Of the worlds, and of the pushes in such a world: an operator edits a stored job then. */
const editShares = { worlds: 0.5, pushes: 0.3 };
/** An operation is about many jobs. */
const pushesForOperations = 40;
/** virtual ms after which a job that has not ended counts as lost */
const calmMsMax = 900_000;
/** A usual world has 3,000. One that waits for starts that hang has 420 in a second: two instances poll. */
const eventsMax = 150_000;
const eventsPerMs = 0.5;
/** virtual ms after which the processes of a new world work, and after which no fault has an effect */
const startedMs = 5_000;
const recoveredMs = 30_000;
const instances = [7, 9] as const;
/** of the worlds on Redis in which no instance can be lost */
const pairShare = 0.15;
/** of the worlds on Redis */
const shardedShare = 0.2;
/** of the worlds on Redis in which MySQL has no trouble */
const journalShare = 0.15;
/** of the worlds on Redis in which the option `standby` is not changed */
const leadShare = 0.05;
/** virtual ms between two looks for what is late */
const lookMs = 250;

export class World {
  readonly #plan: Plan;
  readonly #loop: Loop;
  readonly #judge: Judge;
  readonly #dice: Dice;
  readonly #databases: Database[] = [];
  readonly #tables: RegistryTables;
  readonly #kinds: readonly FaultKind[];
  readonly #workKinds: readonly WorkKind[];
  readonly #works: readonly Work[];
  readonly #ticks: Ticks;
  readonly #removals: Removals;
  readonly #changes: ShardChanges | null;
  readonly #left: LeftJobs | null;
  #isCalm = false;
  readonly #parts: string[] = [];
  readonly #scene: Scene;
  readonly #receivers: Receivers;
  readonly #instances: Instances;
  readonly #producers: Producers;
  readonly #clients: PullClients;
  readonly #faults: Faults;
  readonly #punctuality: Punctuality;
  readonly #deadNotifiers: DeadNotifiers;

  /** @param ground - where the jobs are in Redis */
  constructor(plan: Plan, ground: RedisGround | null = null) {
    this.#plan = plan;
    const loop = new Loop({ seed: plan.seed, kept: plan.kept ?? 0 });
    this.#loop = loop;
    this.#dice = loop.stream('world');
    const storeName = ground === null ? 'sqlite' : 'redis';
    this.#kinds = plan.faults ?? drawKinds(loop.stream('faults'), kindsOf(storeName));
    const db = memoryDatabase();
    this.#databases.push(db);
    const judge = new Judge(() => loop.at);
    this.#judge = judge;
    const topics = new TopicTable(
      loop.stream('topics'),
      loop.stream('pulled topics'),
      loop.stream('outcome topics'),
      () => loop.at,
    );
    const occasions = new Occasions();
    const network = new Network(loop);
    const config = this.#configOf(ground !== null);
    const mails = new MailServer({ loop, judge, topics, config });
    const isOneGeneration = !this.#kinds.some((kind) => renewing.includes(kind));
    const isOrderly = this.#kinds.every((kind) => orderly.includes(kind));
    const shards = ground === null ? 1 : this.#shards();
    const isGentle = isOrderly || this.#kinds.every((kind) => harmless.includes(kind));
    const deadlines = new Deadlines({ loop, judge, isGentle });
    const keepsHistory = !this.#kinds.some((kind) => filling.includes(kind));
    const windows = new Windows({ loop, judge, keepsHistory });
    const verdicts = new Verdicts({ loop, judge, topics });
    const toLedger = {
      ...{ loop, judge, topics, mails, deadlines, windows, verdicts, network, isGentle },
      retryUnitMs: config['retry.unit'],
    };
    const hasJournal = config['mysql.url'] !== '';
    const drawn = plan.works ?? drawWorks(loop.stream('works'));
    const changesShards = ground !== null && !hasJournal && drawn.includes('shards');
    const first = new Ledger(toLedger);
    const machines = changesShards ? shards + 1 : shards;
    const others = Array.from({ length: machines - 1 }, () => new Ledger(toLedger));
    const ledger = new Ledgers(first, ...others);
    const slots = config['notifier.slots'];
    const lead =
      ground !== null && this.#hasLead() ? new Lead({ loop, judge, network, topics, isOrderly }) : null;
    const ofCalls = { isOneGeneration, isOrderly, slots, lead };
    const calls = new Calls({ loop, judge, deadlines, ledger, topics, occasions, ...ofCalls });
    const dice = loop.stream('tables');
    const disk = new Disk({ loop, db, ledger: first, network });
    const retentionMs = config['dead.retention'];
    const follower = new Follower({
      ...{ loop, judge, ledger: first, mails, db, disk, occasions },
      retentionMs,
      dice,
    });
    const peerWaitMs = config['journal.peerWait'];
    // The rules on works do not know what a healing puts back; those on operations follow one shard.
    const canWork: Readonly<Record<WorkKind, boolean>> = {
      ...{ schedules: !hasJournal, removals: !hasJournal, shards: changesShards },
      operations: !hasJournal && machines === 1,
      moves: ground !== null && !changesShards && lead === null,
    };
    this.#workKinds = drawn.filter((kind) => canWork[kind]);
    const ofJournal = { loop, judge, ledger, network, occasions, peerWaitMs, shards };
    const journal = hasJournal ? new JournalSide(ofJournal) : null;
    const laws = journal?.laws ?? null;
    const redis =
      ground === null
        ? null
        : new RedisSide({
            ground,
            loop,
            judge,
            ledger,
            listed: shards,
            mails,
            network,
            occasions,
            retentionMs,
            laws,
          });
    this.#tables = new RegistryTables(topics.names);
    const registry = this.#tables.registry(topics, occasions, redis?.table ?? null);
    const followed = { loop, judge, ledger, network, occasions, topics };
    const operations = new OperationRules({ ...followed, ledger: first });
    this.#ticks = new Ticks(followed);
    const upkeep = { mails, registry, files: new UpkeepFiles(), operations };
    const common = {
      isCalm: () => this.#isCalm,
      network,
      port: new Port(loop),
      config,
      isOrderly,
      single: new Single(judge),
      redis,
      journal,
      lead,
      left: null,
    };
    const own = { instance: instances[0], prefix: '', incarnations: { masters: 0, workers: 0 } };
    this.#scene = {
      ...{ loop, judge, deadlines, windows, verdicts, topics, ledger, calls, follower, disk, occasions, db },
      ...{ ...common, ...upkeep, ...own },
    };
    this.#receivers = new Receivers(this.#scene);
    this.#instances = new Instances(this.#scenes(ground !== null), this.#receivers);
    this.#producers = new Producers(this.#scene, this.#instances);
    this.#clients = new PullClients(this.#scene, this.#instances);
    this.#deadNotifiers = new DeadNotifiers(this.#scene, this.#instances);
    this.#faults = new Faults(this.#scene, this.#instances, this.#receivers);
    const isHarmless = this.#kinds.every((kind) => harmless.includes(kind) || orderly.includes(kind));
    const operators = new Operators(this.#scene, this.#instances, !isHarmless);
    this.#removals = new Removals(this.#scene, operators);
    const changes = changesShards && redis !== null ? new ShardChanges(this.#scene, redis, operators) : null;
    if (changes !== null) this.#tables.watches.push(changes.watch);
    const left = this.#workKinds.includes('moves') ? this.#leave(operators) : null;
    this.#left = left;
    ledger.isMoving = changes !== null;
    this.#changes = changes;
    const works: Readonly<Partial<Record<WorkKind, Work>>> = {
      schedules: new Schedules(this.#scene, operators, this.#ticks),
      operations: new OperatorsWork(this.#scene, operators, operations, this.#receivers),
      removals: this.#removals,
      ...(changes === null ? {} : { shards: changes }),
      ...(left === null ? {} : { moves: left }),
    };
    this.#works = this.#workKinds.flatMap((kind) => works[kind] ?? []);
    this.#tables.watches.push(this.#ticks.watch, operations.watch, this.#removals.watch);
    this.#punctuality = new Punctuality(
      this.#scene,
      {
        ...{ instances: this.#instances, receivers: this.#receivers, clients: this.#clients },
      },
      (wall) => this.#tables.overdue(wall),
    );
  }

  /** The first instance has the jobs. */
  #leave(operators: Operators): LeftJobs {
    const [first, ...others] = this.#instances.all;
    if (first === undefined) throw new Error('the world has no instance');
    const servers = () => first.servers;
    const isAlone = others.length === 0;
    const left = new LeftJobs({ scene: first.scene, operators, servers, isAlone });
    first.scene.left = left;
    this.#scene.left = left;
    return left;
  }

  /** Most worlds on Redis have one. */
  #shards(): number {
    const dice = this.#loop.stream('shards');
    const { shards } = this.#plan;
    if (shards !== undefined) return shards;
    return dice.chance(shardedShare) ? 2 + dice.below(2) : 1;
  }

  #hasJournal(): boolean {
    return this.#kinds.includes('mysqlTrouble') || this.#loop.stream('journal').chance(journalShare);
  }

  #hasLead(): boolean {
    return this.#kinds.includes('standby') || this.#loop.stream('lead').chance(leadShare);
  }

  /** On Redis some worlds have two instances, and those in which one can be lost. */
  #scenes(isOnRedis: boolean): readonly Scene[] {
    const first = this.#scene;
    const { loop, judge, network } = first;
    const isLost = this.#kinds.includes('instanceDown');
    const isAlone = !isLost && first.lead === null && !loop.stream('instances').chance(pairShare);
    if (!isOnRedis || isAlone) return [first];
    const db = memoryDatabase();
    this.#databases.push(db);
    const second: Scene = {
      ...first,
      ...{ instance: instances[1], prefix: 'b-', port: new Port(loop), db, files: new UpkeepFiles() },
      ...{ single: new Single(judge), disk: new Disk({ loop, db, ledger: first.ledger.first, network }) },
    };
    return [{ ...first, prefix: 'a-' }, second];
  }

  run(): Result {
    const loop = this.#loop;
    // Node reports it while the microtasks of an event run.
    const onRejection = (error: unknown) => void loop.thrown.push(error);
    process.on('unhandledRejection', onRejection);
    loop.install();
    try {
      this.#live();
    } finally {
      process.off('unhandledRejection', onRejection);
      loop.close();
      for (const db of this.#databases) db.close();
    }
    const { hash, sentences: story } = loop.trace;
    const { commits } = this.#store;
    const { calls, ledger, redis } = this.#scene;
    const ended = [...loop.processes.values()].filter(({ isAlive }) => !isAlive).length;
    const happened = {
      calls: calls.count,
      mails: this.#scene.mails.count,
      commits,
      ended,
      virtualS: Math.round(loop.at / 1_000),
    };
    const scripts = { ...redis?.counts, ...this.#scene.journal?.laws.counts };
    const counts = { ...ledger.counts, ...this.#faults.counts, ...this.#scene.disk.counts, ...scripts };
    const ofWorks = {
      ...this.#ticks.counts,
      ...this.#scene.operations.counts,
      ...this.#removals.counts,
      ...this.#changes?.counts,
      ...this.#left?.counts,
    };
    const pulls = this.#clients.counts;
    const numbers = {
      ...pulls,
      ...this.#producers.outcomes,
      ...happened,
      ...counts,
      ...this.#punctuality.counts,
      ...this.#deadNotifiers.counts,
      ...ofWorks,
      ...this.#scene.lead?.counts,
      ...this.#scene.deadlines.counts,
      ...this.#scene.windows.counts,
      ...this.#scene.verdicts.counts,
    };
    const { violation } = this.#judge;
    const kinds = { faults: this.#kinds, works: this.#workKinds };
    return { hash, events: loop.events, parts: this.#parts, ...kinds, violation, story, numbers };
  }

  /** Follows what is stored. */
  get #store(): Pick<Follower, 'commits' | 'checkTables'> {
    return this.#scene.redis ?? this.#scene.follower;
  }

  #live(): void {
    const loop = this.#loop;
    const { topics } = this.#scene;
    // In some worlds the janitor gets its next turn after the faults.
    const isLong = this.#dice.chance(0.2);
    const isShortLived = this.#scene.config['dead.retention'] < activeMs;
    const lingerMs = isShortLived ? 100_000 : isLong ? 70_000 : 5_000;
    this.#scene.redis?.start();
    this.#instances.start();
    this.#planPushes();
    this.#planClients();
    this.#planFaults();
    this.#planWorks();
    const isHarmless = this.#kinds.every((kind) => harmless.includes(kind));
    // Those of Redis may be lost at each reconnect.
    const areHintsLost = this.#kinds.includes('loseHints') || this.#scene.redis !== null;
    this.#punctuality.holdFrom(isHarmless ? startedMs : activeMs + recoveredMs, areHintsLost);
    if (isHarmless && !this.#kinds.includes('registryAway')) topics.isReadSoon = true;
    this.#runUntil(activeMs);
    this.#isCalm = true;
    this.#faults.calm();
    for (const work of this.#works) work.end();
    this.#receivers.isCalm = true;
    this.#clients.isCalm = true;
    this.#producers.pushAfterFaults();
    if (topics.pulled.length > 0) this.#clients.begin('last', loop.stream('last client'));
    const end = activeMs + calmMsMax;
    while (this.#judge.violation === null && loop.at < end) {
      this.#runUntil(loop.at + 1_000);
      if (loop.at > activeMs + lingerMs && this.#isQuiet()) break;
    }
    if (this.#judge.violation === null) this.#checkEnd();
  }

  #runUntil(until: number): void {
    for (let at = this.#loop.at; at < until; ) {
      at = Math.min(until, at + lookMs);
      this.#step(at);
      this.#scene.journal?.look();
      this.#scene.ledger.check(this.#judge);
      if (this.#judge.violation !== null) continue;
      this.#punctuality.look();
      this.#deadNotifiers.look();
    }
  }

  #step(until: number): void {
    const loop = this.#loop;
    while (this.#judge.violation === null && loop.step(until)) {
      const [error] = loop.thrown;
      if (error !== undefined) this.#judge.fail('no process throws', stackOf(error));
      if (loop.events > eventsMax + eventsPerMs * loop.at)
        this.#judge.fail('10 no loop runs hot', `${loop.events} events`);
    }
    if (this.#judge.violation === null) loop.at = until;
  }

  /** Every job has ended or is dead, every push is answered, and the daemon is complete. */
  #isQuiet(): boolean {
    if (!this.#producers.isAnswered || this.#instances.whyIncomplete !== null) return false;
    const { mails, journal } = this.#scene;
    if (mails.owed.length > 0 || journal?.isHealed === false) return false;
    if (this.#works.some(({ whyBusy }) => whyBusy !== null)) return false;
    return this.#unfinished().length === 0;
  }

  /** Live jobs, but for those of clients whose leases were prolonged: the clock stepped back, and the store
   *  did not see it. */
  #unfinished(): readonly Readonly<Entry>[] {
    const isLong = ({ lease }: Readonly<Entry>) => lease?.pull != null && lease.behindMs > 0;
    return [...this.#scene.ledger.entries.values()].filter(
      (entry) => entry.state === 'live' && !isLong(entry),
    );
  }

  #checkEnd(): void {
    this.#store.checkTables();
    this.#producers.checkEnd();
    for (const work of this.#works) work.checkEnd();
    const busy = this.#works.flatMap(({ whyBusy }) => whyBusy ?? []);
    this.#judge.check(busy.length === 0, 'operators are served in the end', () => busy.join('; '));
    const left = this.#unfinished();
    const names = left.map((entry) => `${entry.key}: ${describe(entry)}`);
    this.#judge.check(left.length === 0, '1 every accepted job ends', () => names.join('; '));
    const why = this.#instances.whyIncomplete;
    this.#judge.check(why === null, 'every place is filled in the end', () => why ?? '');
    const { owed } = this.#scene.mails;
    this.#judge.check(owed.length === 0, 'decision 8: each alert is settled', () => owed.join(', '));
    const { journal } = this.#scene;
    this.#judge.check(
      journal?.isHealed !== false,
      'journal: each loss is healed',
      () => 'a note is in force',
    );
    journal?.laws.checkEnd();
    this.#checkStatistics();
  }

  /** They may be too low: those of a killed process are lost. An outcome whose first call has no answer
   *  counts although its lease had expired, was lost with the data of the store, or its job was replaced or
   *  cancelled. */
  #checkStatistics(): void {
    const { counts } = this.#scene.ledger;
    const sum = (...names: readonly string[]) => names.reduce((all, name) => all + (counts[name] ?? 0), 0);
    const uncertain = sum('expired', 'owner', 'forgotten', 'withdrawn lease');
    const happened = {
      delivered: sum('ack') + uncertain,
      retried: sum('retry') + uncertain,
      dead: sum('bury') + uncertain,
    };
    for (const [name, most] of Object.entries(happened)) {
      const recorded = this.#tables.recorded(name as StatName);
      this.#judge.check(
        recorded <= most,
        'statistics are never too high',
        () => `${name}: ${recorded} are recorded, ${most} happened`,
      );
    }
  }

  #planPushes(): void {
    const loop = this.#loop;
    const more = this.#workKinds.includes('operations') ? pushesForOperations : 0;
    const pushes = 10 + this.#dice.below(40) + more;
    const hasEdits = loop.stream('edits').chance(editShares.worlds);
    for (let n = 0; n < pushes; n += 1) {
      const own = loop.stream(`push ${n}`);
      const at = 200 + own.next() * activeMs * 0.8;
      this.#addPart(`push ${n}`, at, () => this.#producers.push(n, own));
      const edit = loop.stream(`edit ${n}`);
      if (hasEdits && edit.chance(editShares.pushes))
        this.#addPart(`edit ${n}`, at + edit.next() * 8_000, () => this.#producers.edit(edit));
      if (!own.chance(0.15)) continue;
      const verb = loop.stream(`verb ${n}`);
      this.#addPart(`verb ${n}`, at + verb.next() * 8_000, () => this.#producers.verb(verb));
    }
  }

  /** Clients that pull, and some that show what is not theirs. */
  #planClients(): void {
    const loop = this.#loop;
    if (this.#scene.topics.pulled.length === 0) return;
    const dice = loop.stream('clients');
    const clients = 1 + dice.below(3);
    for (let n = 0; n < clients; n += 1) {
      const own = loop.stream(`client ${n}`);
      this.#addPart(`client ${n}`, own.next() * 3_000, () => this.#clients.begin(`c${n}`, own));
    }
    const forgeries = dice.below(8);
    for (let n = 0; n < forgeries; n += 1) {
      const own = loop.stream(`forgery ${n}`);
      this.#addPart(`forgery ${n}`, 2_000 + own.next() * activeMs, () => this.#clients.forge(own));
    }
  }

  #planFaults(): void {
    const loop = this.#loop;
    const faults = this.#kinds.length === 0 ? 0 : 2 + this.#dice.below(10);
    for (let n = 0; n < faults; n += 1) {
      const own = loop.stream(`fault ${n}`);
      const kind = own.pick(this.#kinds);
      const at = 500 + own.next() * activeMs * 0.95;
      this.#addPart(`fault ${n}`, at, () => this.#faults.inject(kind, own));
    }
  }

  #planWorks(): void {
    const loop = this.#loop;
    for (const [n, kind] of this.#workKinds.entries())
      for (const { name, at, act } of this.#works[n]?.plan(loop.stream(kind)) ?? [])
        this.#addPart(name, at, () => act(loop.stream(name)));
  }

  #addPart(name: string, at: number, act: () => void): void {
    if (this.#plan.without?.includes(name) === true) return;
    this.#parts.push(name);
    this.#loop.schedule(null, at, name, act);
  }

  #configOf(isOnRedis: boolean): Config {
    const dice = this.#dice;
    const defaults = Object.fromEntries(
      Object.entries(configOptions).map(([name, option]) => [name, option.default]),
    ) as Record<OptionName, unknown> as Config;
    const mysql = isOnRedis && this.#hasJournal() ? mysqlUrl : '';
    return {
      ...defaults,
      dataDir: '/nowhere',
      redis: isOnRedis ? redisUrls(this.#shards()) : [],
      'mysql.url': mysql,
      'journal.mode': mysql === '' ? 'off' : 'sync',
      'journal.peerWait': this.#loop.stream('journal wait').pick([15_000, 60_000]),
      'retry.unit': dice.pick([200, 1_000, 3_000]),
      pollCeiling: dice.pick([200, 1_000]),
      'notifier.slots': dice.pick([4, 16, 64]),
      'history.retention': 3_600_000,
      'alerts.window': 2_000,
      'alerts.emails': dice.chance(0.9) ? ['ops@dq.test'] : [],
      'dead.retention': dice.pick([3_600_000, 3_600_000, 3_600_000, 20_000]),
    };
  }
}

/** One world of ten is orderly, and one of seven has some of the harmless kinds or none. Of the others half
 *  have two or three kinds, and half each kind with a chance of 40 %. */
function drawKinds(dice: Dice, faultKinds: readonly FaultKind[]): readonly FaultKind[] {
  if (dice.chance(0.1)) {
    const kinds = orderly.filter(() => dice.chance(0.7));
    return kinds.filter((kind) => faultKinds.includes(kind));
  }
  if (dice.chance(0.16)) {
    const kinds = harmless.filter(() => dice.chance(0.3));
    return kinds.filter((kind) => faultKinds.includes(kind));
  }
  if (dice.chance(0.45)) return faultKinds.filter(() => dice.chance(0.4));
  return [...new Set([dice.pick(faultKinds), dice.pick(faultKinds), dice.pick(faultKinds)])];
}

function memoryDatabase(): Database {
  const db = openDatabase(':memory:');
  db.exec(`BEGIN; ${schema} COMMIT`);
  keepStatements(db);
  return db;
}

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
