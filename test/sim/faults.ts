// The faults of a world. Each draws from its own stream of chance, so that it stays the same when others are
// left out. A world enables some kinds: a mix of all hides what two or three of them find.

import type { Dice } from '../../scripts/dice.ts';
import type { RoleName } from '../../src/process/messages.ts';
import type { Instances } from './instances.ts';
import type { JournalSide } from './journal/journal-side.ts';
import type { MysqlMood } from './journal/mysql.ts';
import { seconds } from './ledger.ts';
import type { Master } from './master.ts';
import type { Process } from './process.ts';
import type { Receivers } from './receivers.ts';
import { RedisFaults, redisFaultKinds } from './redis/redis-faults.ts';
import { registryWrites } from './registry.ts';
import type { Scene } from './scene.ts';
import { startFlaws } from './workers.ts';

export const faultKinds = [
  'kill',
  'killMid',
  'pause',
  'cut',
  'lateReply',
  'slowChannel',
  'wallStep',
  'storeKill',
  'storeKillAtPush',
  'storeKillAtRegistry',
  'storeDown',
  'reload',
  'reloads',
  'reloadDeath',
  'badReload',
  'badStart',
  'hang',
  'terminate',
  'restart',
  'masterKill',
  'masterPause',
  'masterSlow',
  'freeze',
  'loseHints',
  'topicOff',
  'poison',
  'receiverDown',
  'mailTrouble',
  'powerCut',
  'diskFull',
  'commitFails',
  'slowDisk',
  'backupRestored',
  'registryAway',
  'topicEdit',
  'instanceDown',
  'mysqlTrouble',
  'standby',
  ...redisFaultKinds,
] as const;
export type FaultKind = (typeof faultKinds)[number];
export const storeNames = ['sqlite', 'redis'] as const;
export type StoreName = (typeof storeNames)[number];

/** On Redis dq-store owns the registry alone. */
const ofEmbedded: readonly FaultKind[] = [
  ...(['storeDown', 'powerCut', 'diskFull', 'commitFails', 'slowDisk', 'backupRestored'] as const),
];

/** Without Redis a world has one instance. */
const ofRedis: readonly FaultKind[] = [...redisFaultKinds, 'instanceDown', 'mysqlTrouble', 'standby'];

/** Those that a world with this store can draw. */
export function kindsOf(store: StoreName): readonly FaultKind[] {
  return faultKinds.filter((kind) => !(store === 'redis' ? ofEmbedded : ofRedis).includes(kind));
}

/** With these alone nothing is slow: each job is punctual. */
export const harmless: readonly FaultKind[] = [
  ...(['loseHints', 'topicOff', 'receiverDown', 'registryAway', 'topicEdit'] as const),
];

/** After these two generations of notifiers may work at once. */
export const renewing: readonly FaultKind[] = ['reload', 'reloads', 'reloadDeath', 'badReload', 'standby'];

/** After these a store may keep no entry of an end. */
export const filling: readonly FaultKind[] = ['diskFull', 'redisRejects'];

/** What an operator does to a daemon that works. */
export const orderly: readonly FaultKind[] = ['reload', 'reloads', 'standby'];

const roles: readonly RoleName[] = ['store', 'server', 'timer', 'notifier', 'upkeep', 'console'];

const victims: readonly RoleName[] = ['server', 'timer', 'notifier', 'notifier', 'upkeep'];

export class Faults {
  readonly #scene: Scene;
  readonly #instances: Instances;
  readonly #receivers: Receivers;
  /** The clock ends at its latest offset: jobs accepted ahead are due later by right. */
  #latestOffset: number;
  #isCalm = false;
  readonly #redisFaults: RedisFaults;
  readonly #act: Readonly<Record<FaultKind, (dice: Dice) => void>> = {
    kill: (dice) => this.#kill(dice, victims),
    killMid: (dice) => this.#killMid(this.#victim(dice, victims), dice, 6),
    pause: (dice) => this.#pause(dice),
    cut: (dice) => this.#cut(dice),
    lateReply: (dice) => this.#lateReply(dice),
    slowChannel: (dice) => this.#slowChannel(dice),
    wallStep: (dice) => this.#wallStep(dice),
    storeKill: (dice) => {
      if (dice.chance(0.5)) this.#kill(dice, ['store']);
      else this.#killMid(this.#victim(dice, ['store']), dice, 3);
    },
    storeKillAtPush: () => this.#storeKillAtPush(),
    storeKillAtRegistry: (dice) => this.#storeKillAtRegistry(dice),
    storeDown: (dice) => this.#storeDown(dice),
    reload: (dice) => this.#reload(dice),
    reloads: (dice) => this.#reloads(dice),
    reloadDeath: (dice) => this.#reloadDeath(dice),
    badReload: (dice) => this.#badReload(dice),
    badStart: (dice) => {
      const role = this.#badStart(dice);
      this.#kill(dice, dice.chance(0.7) ? [role] : roles);
    },
    hang: (dice) => this.#hang(this.#victim(dice, roles)),
    terminate: (dice) => this.#terminate(dice),
    restart: (dice) => this.#restart(dice),
    masterKill: (dice) => this.#masterKill(dice),
    masterPause: (dice) => this.#masterPause(dice),
    masterSlow: (dice) => this.#masterSlow(dice),
    freeze: (dice) => this.#freeze(dice),
    loseHints: (dice) => this.#loseHints(dice),
    topicOff: (dice) => this.#topicOff(dice),
    poison: (dice) => this.#poison(dice),
    receiverDown: (dice) => this.#receiverDown(dice),
    mailTrouble: (dice) => this.#mailTrouble(dice),
    instanceDown: (dice) => this.#instanceDown(dice),
    standby: (dice) => this.#standby(dice),
    mysqlTrouble: (dice) => this.#mysqlTrouble(dice),
    redisKill: (dice) => this.#redisFaults.act.redisKill(dice),
    redisDown: (dice) => this.#redisFaults.act.redisDown(dice),
    redisPause: (dice) => this.#redisFaults.act.redisPause(dice),
    redisEmptied: (dice) => this.#redisFaults.act.redisEmptied(dice),
    redisFailover: (dice) => this.#redisFaults.act.redisFailover(dice),
    redisRejects: (dice) => this.#redisFaults.act.redisRejects(dice),
    redisForgets: (dice) => this.#redisFaults.act.redisForgets(dice),
    powerCut: (dice) => this.#powerCut(dice),
    diskFull: (dice) => this.#diskFull(dice),
    commitFails: (dice) => {
      const how = dice.pick(['before', 'applied', 'lost'] as const);
      this.#tell(`the next COMMIT fails${how === 'before' ? '' : `, and its transaction is ${how}`}`);
      this.#scene.disk.failCommit(how);
    },
    slowDisk: (dice) => {
      const ms = dice.pick([300, 2_000, 9_000]);
      this.#tell(`each COMMIT takes up to ${seconds(ms)}`);
      this.#scene.disk.slowDown(ms, dice.next() * 8_000);
    },
    backupRestored: (dice) => this.#backupRestored(dice),
    registryAway: (dice) => this.#registryAway(dice),
    topicEdit: (dice) => {
      const { topics } = this.#scene;
      const topic = dice.pick(topics.names);
      topics.edit(topic, dice);
      const { timeoutMs, maxAttempts, concurrency, rate } = topics.get(topic);
      const settings = JSON.stringify({ timeoutMs, maxAttempts, concurrency, rate });
      this.#tell(`topic ${topic} is edited: ${settings}`);
    },
  };
  /** how often each kind happened; and while calls ran or pushes were unanswered */
  readonly counts: Record<string, number> = {};

  constructor(scene: Scene, instances: Instances, receivers: Receivers) {
    this.#scene = scene;
    this.#instances = instances;
    this.#receivers = receivers;
    this.#latestOffset = scene.loop.wallOffset;
    this.#redisFaults = new RedisFaults({
      ...scene,
      tell: (what) => this.#tell(what),
      onSlow: (until) => scene.network.isSlowUntil(until),
      later: (ms, act) => this.#later(ms, act),
    });
  }

  /** Some faults are aimed: they wait for the next call or COMMIT. */
  inject(kind: FaultKind, dice: Dice): void {
    const act = (own: Dice) => {
      this.#count(`fault ${kind}`);
      const isBusy = [...this.#scene.ledger.entries.values()].some(({ lease }) => lease !== null);
      if (isBusy) this.#count(`fault ${kind} while a job was leased`);
      this.#act[kind](own);
    };
    if (!dice.chance(0.3)) {
      act(dice);
      return;
    }
    const { occasions, loop, left } = this.#scene;
    const waitMs = dice.next() * 5;
    const ofMove = left === null ? [] : (['moving', 'moving'] as const);
    occasions.add(dice.pick(['call', 'commit', ...ofMove]), () => {
      loop.after(waitMs, null, `aimed ${kind}`, () => {
        if (!this.#isCalm) act(dice);
      });
      return true;
    });
  }

  /** Ends every fault that lasts, but the starts that go wrong: their number is bounded. */
  calm(): void {
    const { loop, mails, network, occasions, topics, disk } = this.#scene;
    this.#isCalm = true;
    loop.tell('From here on there are no faults, and the receivers take everything.');
    occasions.clear();
    network.lateUntil = 0;
    network.latencyMs = Math.min(network.latencyMs, 2);
    network.hintLoss = 0;
    network.masterMs = 0;
    mails.mood = 'up';
    this.#instances.mend();
    this.#redisFaults.calm();
    if (this.#scene.journal !== null) this.#scene.journal.mysql.mood = 'works';
    disk.calm();
    this.#step(this.#latestOffset - loop.wallOffset);
    topics.calm();
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  #tell(what: string): void {
    this.#scene.loop.tell(`Fault: ${what}.`);
  }

  /** Ends a fault, unless calm() has ended all. */
  #later(ms: number, act: () => void): void {
    this.#scene.loop.after(ms, null, 'a fault ends', () => {
      if (!this.#isCalm) act();
    });
  }

  #victim(dice: Dice, roles: readonly RoleName[]): Process | null {
    const living = this.#instances.living(dice.pick(roles));
    return living.length === 0 ? null : dice.pick(living).process;
  }

  #kill(dice: Dice, roles: readonly RoleName[]): void {
    const victim = this.#victim(dice, roles);
    if (victim !== null) this.#scene.loop.kill(victim, 'fault: it is killed');
  }

  #killMid(victim: Process | null, dice: Dice, sendsMax: number): void {
    if (victim === null) return;
    victim.sendsLeft = dice.below(sendsMax);
    this.#tell(`${victim.title} dies after ${victim.sendsLeft} messages`);
  }

  #pause(dice: Dice): void {
    const victim = this.#victim(dice, [...victims, 'store']);
    const ms = dice.pick([50, 800, 5_000, 20_000, 60_000]) * dice.next();
    if (victim === null) return;
    const { loop, network } = this.#scene;
    this.#tell(`${victim.title} stands still for ${seconds(ms)}`);
    victim.pauseUntil(loop.at + ms, loop.at);
    if (/store-\d+$/.test(victim.name)) network.isSlowUntil(victim.pausedUntil);
  }

  #cut(dice: Dice): void {
    const picks = () => dice.chance(0.6);
    const ports = this.#instances.all.map(({ scene }) => scene.port);
    const { redis } = this.#scene;
    const clients = [...ports, ...(redis?.shards.map(({ port }) => port) ?? [])].flatMap((port) =>
      port.cut(picks),
    );
    this.#scene.network.isSlowUntil(this.#scene.loop.at);
    this.#tell(`the channels of ${clients.join(', ') || 'no process'} are cut`);
  }

  #lateReply(dice: Dice): void {
    const { network, loop } = this.#scene;
    const ms = 500 + dice.next() * 3_000;
    this.#tell(`some messages of the next ${seconds(ms)} are late`);
    network.lateUntil = loop.at + ms;
  }

  #slowChannel(dice: Dice): void {
    const { network } = this.#scene;
    const before = network.latencyMs;
    network.latencyMs = dice.pick([20, 200, 900]);
    this.#tell(`each message takes ${network.latencyMs} ms`);
    this.#later(dice.next() * 8_000, () => {
      network.latencyMs = Math.min(before, 2);
    });
  }

  #wallStep(dice: Dice): void {
    const { loop } = this.#scene;
    const ms = dice.pick([-1, 1]) * dice.pick([5_000, 60_000, 3_600_000]);
    this.#tell(`the wall clock steps by ${seconds(ms)}`);
    this.#step(ms);
    this.#latestOffset = Math.max(this.#latestOffset, loop.wallOffset);
  }

  #step(ms: number): void {
    if (ms === 0) return;
    this.#scene.loop.wallOffset += ms;
    // The clock of Redis decides alone, and dq-store looks at no lease there.
    this.#scene.ledger.wallStepped(
      ms,
      this.#scene.redis === null && this.#instances.all.some(({ hasStore }) => hasStore),
    );
  }

  /** The COMMIT of a push is the last thing that dq-store does: its replies never leave. */
  #storeKillAtPush(): void {
    const { occasions, ledger } = this.#scene;
    const before = ledger.stored.size;
    this.#tell('the store dies between the COMMIT of the next push and its reply');
    occasions.add('commit', () => {
      if (ledger.stored.size === before) return false;
      this.#endTurn();
      return true;
    });
  }

  #storeKillAtRegistry(dice: Dice): void {
    const write = dice.pick(registryWrites);
    this.#tell(`dq-store dies between the next ${write} and its reply`);
    this.#scene.occasions.add('registry', (name) => {
      if (name !== write) return false;
      this.#endTurn();
      return true;
    });
  }

  /** Longer than leases last. */
  #storeDown(dice: Dice): void {
    const ms = 5_000 + dice.next() * 20_000;
    this.#tell(`dq-store ends, and the next one starts after ${seconds(ms)}`);
    this.#instances.pick(dice).workers.storeDownMs = ms;
    this.#kill(dice, ['store']);
  }

  /** All processes die at once. Moves that were not on the disk are undone, and nothing else. */
  #powerCut(dice: Dice): void {
    const { loop, disk } = this.#scene;
    const waitMs = dice.next() * 2_000;
    disk.watch();
    loop.after(waitMs, null, 'power cut', () => {
      if (this.#isCalm) return;
      this.#tell('the power is cut');
      const before = this.#settled();
      this.#killAll();
      if (disk.cutPower()) this.#count('fault powerCut undid moves');
      const after = this.#settled();
      const lost = [...before].filter((each) => !after.has(each));
      this.#scene.judge.check(
        lost.length === 0 && after.size === before.size,
        '3 a power cut undoes leases alone',
        () => `${lost.join(', ')} of ${before.size} is not there; ${after.size} are`,
      );
    });
  }

  /** What survives a power cut of each job, and of each ended one. */
  #settled(): ReadonlySet<string> {
    const { entries, stored } = this.#scene.ledger;
    const jobs = [...entries.values()].map(
      ({ key, version, state, failures, strikes }) =>
        `${key}, version ${version}, ${state}, ${failures} failures, ${strikes} strikes`,
    );
    return new Set([...jobs, ...[...stored].map(([tag, version]) => `push ${tag} as version ${version}`)]);
  }

  #killAll(): void {
    const { loop } = this.#scene;
    for (const process of loop.processes.values()) loop.kill(process, 'fault: the machine ends');
  }

  /** Until there is space again. */
  #diskFull(dice: Dice): void {
    const { disk, network, loop } = this.#scene;
    const ms = dice.next() * 12_000;
    this.#tell(`the disk is full for ${seconds(ms)}`);
    disk.fill(dice.below(3));
    // Without space for outcomes, too, leases expire.
    network.isSlowUntil(loop.at + ms);
    this.#later(ms, () => disk.empty());
  }

  /** The files of an earlier moment take the place of the present ones while no process runs. */
  #backupRestored(dice: Dice): void {
    const { loop, disk, db } = this.#scene;
    if (db.isTransaction) return;
    const copy = disk.copy();
    this.#tell('a backup is made');
    loop.after(dice.next() * 10_000, null, 'restore', () => {
      if (this.#isCalm) return;
      this.#tell('the backup is put back');
      this.#killAll();
      disk.putBack(copy);
    });
  }

  #registryAway(dice: Dice): void {
    const { topics, lead } = this.#scene;
    this.#tell('the registry answers no call');
    topics.isAway = true;
    this.#later(dice.next() * (lead?.awayMsMax ?? 15_000), () => {
      topics.isAway = false;
    });
  }

  /** The running process dies at the end of its turn, and sends nothing more. */
  #endTurn(): void {
    const { current } = this.#scene.loop;
    if (current !== null) current.sendsLeft = 0;
  }

  /** Each call of one job kills its notifier. */
  #poison(dice: Dice): void {
    const { occasions, loop } = this.#scene;
    const until = loop.at + 5_000 + dice.next() * 30_000;
    let poison: string | null = null;
    occasions.add('call', (key) => {
      if (loop.at > until) return true;
      if (poison === null) this.#tell(`each call of ${key} kills its notifier`);
      poison ??= key;
      if (key === poison) this.#endTurn();
      return false;
    });
  }

  #loseHints(dice: Dice): void {
    const { network } = this.#scene;
    network.hintLoss = dice.pick([0.3, 1]);
    this.#tell(`${network.hintLoss * 100} % of the hints are lost`);
    this.#later(dice.next() * 10_000, () => {
      network.hintLoss = 0;
    });
  }

  #topicOff(dice: Dice): void {
    const { topics } = this.#scene;
    const topic = dice.pick(topics.names);
    const state = dice.pick(['paused', 'paused', 'offline'] as const);
    this.#tell(`topic ${topic} is ${state}`);
    this.#turn(topic, state, dice);
    this.#later(dice.next() * 12_000, () => this.#turn(topic, 'active', dice));
  }

  #turn(topic: string, state: 'active' | 'paused' | 'offline', dice: Dice): void {
    const { servers } = this.#instances;
    if (servers.length === 0) return;
    const { process, ctx } = dice.pick(servers);
    // Without an answer the state may or may not change.
    const turn = () => void ctx.registry.turn(topic, state, 0).catch(() => {});
    this.#scene.loop.after(0, process, 'turn topic', turn);
  }

  #receiverDown(dice: Dice): void {
    const topic = dice.pick(this.#scene.topics.names);
    const mood = dice.pick(['down', 'hung'] as const);
    this.#tell(`the receiver of ${topic} is ${mood}`);
    const before = this.#receivers.setMood(topic, mood);
    this.#later(dice.next() * 15_000, () => this.#receivers.setMood(topic, before));
  }

  #mysqlTrouble(dice: Dice): void {
    const { journal, occasions } = this.#scene;
    const mood = dice.pick(['away', 'away', 'slow', 'failing', 'restored'] as const);
    const ms = dice.pick([1_000, 10_000, 30_000]) * dice.next();
    if (journal === null) return;
    if (mood === 'slow' && dice.chance(0.5)) {
      this.#tell(`MySQL will be slow for ${seconds(ms)} when a healing puts jobs back`);
      occasions.add('healing', (phase) => {
        if (phase === 'jobs') this.#turnMysql(journal, mood, ms);
        return phase === 'jobs';
      });
      return;
    }
    if (mood !== 'restored') {
      this.#turnMysql(journal, mood, ms);
      return;
    }
    const restore = journal.mysql.copy();
    this.#tell('a backup of MySQL is made');
    this.#later(ms, () => {
      this.#tell('the backup of MySQL is put back');
      restore();
      this.#turnMysql(journal, 'away', ms / 10);
    });
  }

  #turnMysql({ mysql }: JournalSide, mood: MysqlMood, ms: number): void {
    this.#tell(`MySQL is ${mood} for ${seconds(ms)}`);
    mysql.mood = mood;
    this.#later(ms, () => {
      mysql.mood = 'works';
    });
  }

  #mailTrouble(dice: Dice): void {
    const { mails } = this.#scene;
    const before = mails.mood;
    mails.mood = dice.pick(['mixed', 'down', 'mute'] as const);
    this.#tell(`the mail server is ${mails.mood}`);
    this.#later(dice.next() * 20_000, () => {
      mails.mood = before;
    });
  }

  #reload(dice: Dice): Master {
    const change = dice.chance(0.3) ? ', with other numbers of workers' : '';
    this.#tell(`the daemon reloads${change}`);
    const master = this.#instances.pick(dice);
    if (change !== '') master.configure(dice);
    master.reload();
    return master;
  }

  /** As the manual says: the option is changed, and the daemon reloads. */
  #standby(dice: Dice): void {
    if (this.#scene.lead === null) return;
    const master = this.#instances.pick(dice);
    const isStandby = master.turnStandby();
    const { instance } = master.scene;
    this.#tell(`instance ${instance} reloads ${isStandby ? 'with' : 'without'} standby`);
    master.reload();
  }

  #reloads(dice: Dice): void {
    const { loop } = this.#scene;
    const count = 2 + dice.below(3);
    for (let n = 0; n < count; n += 1)
      loop.after(n * dice.next() * 3_000, null, 'reload', () => {
        if (!this.#isCalm) this.#reload(dice);
      });
  }

  /** In some phase of a reload: at one of the steps that the master takes. */
  #reloadDeath(dice: Dice): void {
    let steps = dice.below(30);
    const master = this.#reload(dice);
    this.#scene.occasions.add('reload', () => {
      steps -= 1;
      if (steps > 0) return false;
      const living = master.workers.living();
      if (living.length === 0) return true;
      const { process } = dice.pick(living);
      if (dice.chance(0.7)) this.#killSoon(process);
      else this.#hang(process);
      return true;
    });
  }

  #badReload(dice: Dice): void {
    if (dice.chance(0.3)) {
      this.#tell('the configuration is invalid for some time');
      const master = this.#instances.pick(dice);
      master.configure(null);
      this.#later(dice.next() * 10_000, () => master.mend());
      master.reload();
      return;
    }
    this.#badStart(dice);
    this.#reload(dice);
  }

  /** The next starts of a role go wrong. */
  #badStart(dice: Dice): RoleName {
    const role = dice.pick(roles);
    const flaw = dice.pick(startFlaws);
    // So many that the daemon gives up, or one that it gets over.
    const left = flaw === 'refuses' ? 1 : dice.pick([1, 2, flaw === 'hangs' ? 4 : 12]);
    this.#tell(`${left} starts of dq-${role} go wrong: ${flaw}`);
    this.#instances.pick(dice).workers.flaws.set(role, { flaw, left });
    return role;
  }

  /** For ever, until its master kills it. */
  #hang(victim: Process | null): void {
    if (victim === null) return;
    this.#tell(`${victim.title} hangs`);
    victim.pauseUntil(Number.POSITIVE_INFINITY, this.#scene.loop.at);
  }

  /** A signal of an operator to one worker: before its first lines it kills. */
  #terminate(dice: Dice): void {
    const living = this.#instances.living(dice.pick(roles));
    if (living.length === 0) return;
    const { process, hooks, hasHandlers } = dice.pick(living);
    this.#tell(`${process.title} gets SIGTERM`);
    process.isLeaving = true;
    if (hasHandlers)
      this.#scene.loop.after(0, process, 'SIGTERM', () => {
        hooks.terminated = true;
        hooks.onTerm();
      });
    else this.#killSoon(process);
  }

  #restart(dice: Dice): void {
    const atOnce = dice.chance(0.2);
    this.#tell(`the daemon is ${atOnce ? 'killed' : 'stopped'}, and starts again`);
    this.#instances.pick(dice).restart(atOnce);
  }

  #masterKill(dice: Dice): void {
    const { process } = this.#instances.pick(dice);
    if (process !== null) this.#killSoon(process);
  }

  /** Longer than a silence. */
  /** A whole machine ends, and is back after longer than leases last, or soon. */
  #instanceDown(dice: Dice): void {
    const { loop } = this.#scene;
    const master = this.#instances.pick(dice);
    master.downMs = dice.pick([500, 10_000, 40_000]) * dice.next();
    this.#tell(`the machine of ${master.process?.title} ends for ${seconds(master.downMs)}`);
    for (const process of master.processes) loop.kill(process, 'fault: its machine ends');
  }

  #masterPause(dice: Dice): void {
    const { process } = this.#instances.pick(dice);
    if (process === null) return;
    const { at } = this.#scene.loop;
    const ms = dice.pick([500, 5_000, 40_000, 90_000]) * dice.next();
    this.#tell(`${process.title} stands still for ${seconds(ms)}`);
    process.pauseUntil(at + ms, at);
  }

  /** As a suspended machine whose clocks go on. */
  #freeze(dice: Dice): void {
    const { at } = this.#scene.loop;
    const ms = dice.pick([5_000, 40_000, 90_000]) * dice.next();
    const { processes, scene } = this.#instances.pick(dice);
    this.#tell(
      `every process ${scene.prefix === '' ? '' : `of ${scene.prefix} `}stands still for ${seconds(ms)}`,
    );
    for (const process of processes) process.pauseUntil(at + ms, at);
  }

  #masterSlow(dice: Dice): void {
    const { network } = this.#scene;
    network.masterMs = dice.pick([50, 500, 2_000]);
    this.#tell(`messages of the master take up to ${network.masterMs} ms`);
    this.#later(dice.next() * 20_000, () => {
      network.masterMs = 0;
    });
  }

  #killSoon(process: Process): void {
    const { loop } = this.#scene;
    loop.after(0, null, 'a kill', () => loop.kill(process, 'fault: it is killed'));
  }
}
