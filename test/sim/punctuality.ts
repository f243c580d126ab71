// The rules on what happens late. They hold while no fault slows anything: in a world with harmless faults
// alone, and some time after the end of others.
// Invariant: a rule says what the manual or src/README.md promises; the time of messages is added to it.

import { storeLimits } from '../../src/store/limits.ts';
import type { Instances } from './instances.ts';
import { describe, seconds } from './ledger.ts';
import type { Master } from './master.ts';
import type { PullClients } from './pull-clients.ts';
import type { Receivers } from './receivers.ts';
import type { Scene } from './scene.ts';
import { topicsKnownMs } from './topics.ts';

/** Messages, turns and timers between a moment and what follows it. */
const messagesMs = 150;
/** Settling repeats after a lost answer, which only faults cause. */
const settledMs = 1_000;
/** After this time a process that stood still, or started, has done what was missed. */
const resumedMs = 15_000;
/** The leases of a dead instance end so much later at most (guarantees.md). */
const takenOverMs = 5_000;
/** between two looks, and more */
const lookedMs = 1_000;
/** Two turns of the ticker, and a push. */
const ticksMs = 3_000;
/** A janitor's turn, and its start. */
const janitorMs = 75_000;

export class Punctuality {
  readonly #scene: Scene;
  readonly #instances: Instances;
  readonly #receivers: Receivers;
  readonly #clients: PullClients;
  /** virtual ms from which on the registry has answered for some time */
  #readAt = 0;
  /** virtual ms from which on all processes have worked for some time */
  #completeAt = 0;
  /** delayed jobs that were due before a time */
  readonly #overdue: (before: number) => readonly (readonly [version: number, due: number])[];
  /** versions */
  readonly #ready: () => ReadonlySet<number>;
  /** virtual ms from which on the rules hold */
  #from: number;
  /** after a due time, or after a job is ready */
  #lateMs = 0;
  /** by version: virtual ms since when nothing keeps a ready job waiting */
  #free = new Map<number, number>();
  /** names of the schedules whose next instant is before a time */
  readonly #overdueTicks: (wall: number) => readonly string[];
  /** the same while a client waits for it */
  #wanted = new Map<number, number>();
  /** how often a rule was asked about a job */
  readonly counts = {
    ...{ 'promotes judged': 0, 'idle reserves judged': 0, 'ends judged': 0 },
    ...{ 'expired leases judged': 0, 'wanted jobs judged': 0, 'waits judged': 0 },
    'ticks judged': 0,
  };
  /** by instance: virtual ms since when it and each shard have worked */
  readonly #worksSince = new Map<Master, number[]>();

  constructor(
    scene: Scene,
    { instances, receivers, clients }: { instances: Instances; receivers: Receivers; clients: PullClients },
    overdueTicks: (wall: number) => readonly string[],
  ) {
    this.#overdueTicks = overdueTicks;
    this.#scene = scene;
    this.#instances = instances;
    this.#receivers = receivers;
    this.#clients = clients;
    this.#from = Number.POSITIVE_INFINITY;
    const select = (sql: string) => scene.db.prepare(sql, { returnArrays: true });
    const { redis } = scene;
    if (redis !== null) {
      this.#overdue = (before) => redis.overdue(before);
      this.#ready = () => redis.ready();
      return;
    }
    const overdue = select('SELECT version, due FROM job WHERE state = 0 AND due < ?');
    const ready = select('SELECT version FROM job WHERE state = 1');
    this.#overdue = (before) => overdue.all(before) as [number, number][];
    this.#ready = () => new Set((ready.all() as [number][]).map(([version]) => version));
  }

  /** `areHintsLost`: a job may wait for pollCeiling. */
  holdFrom(at: number, areHintsLost: boolean): void {
    this.#from = at;
    this.#lateMs = (areHintsLost ? this.#scene.config.pollCeiling : 0) + messagesMs;
  }

  /** Several times a second. */
  look(): void {
    const { loop, db } = this.#scene;
    this.#lookForTakenOver();
    this.#scene.lead?.look(this.#instances);
    if (loop.at < this.#from || db.isTransaction || this.#isStopped()) return;
    this.#lookForOverdue();
    const ready = this.#ready();
    this.#lookForIdle(ready);
    this.#lookForWanted(ready);
    this.#lookForWaits();
    this.#lookForUnsettled();
    this.#lookForExpired();
    this.#lookForTicks();
  }

  /** A process stands still or is missing, or did or was so lately. */
  #isStopped(): boolean {
    const { loop } = this.#scene;
    const { redis } = this.#scene;
    const isRunning = redis?.shards.every(({ machine }) => machine.process !== null) !== false;
    const isComplete = this.#instances.whyIncomplete === null && isRunning;
    if (!isComplete) this.#completeAt = loop.at + resumedMs;
    // Nothing is reserved, and jobs are missing.
    if (this.#scene.journal?.laws.isHealing === true) this.#completeAt = loop.at + resumedMs;
    if (loop.at < this.#completeAt) return true;
    for (const { isAlive, lastPauseEnd } of loop.processes.values())
      if (isAlive && lastPauseEnd > loop.at - resumedMs) return true;
    return false;
  }

  /** Invariant 9: with or without a hint. */
  #lookForOverdue(): void {
    const { loop, judge } = this.#scene;
    this.counts['promotes judged'] += 1;
    for (const [version, due] of this.#overdue(loop.wall - this.#lateMs))
      judge.fail(
        '9 a job is late by at most pollCeiling',
        `version ${version} is due since ${loop.wall - due} ms`,
      );
  }

  /** A notifier without anything to do reserves a ready job of a topic that nothing restricts. */
  #lookForIdle(ready: ReadonlySet<number>): void {
    const { loop, judge, ledger, topics } = this.#scene;
    const entries = [...ledger.entries.values()];
    const isIdle = entries.every(({ lease }) => lease === null);
    const free = new Map<number, number>();
    const delivers = this.#scene.lead?.delivers(this.#instances) !== false;
    for (const { version, topic, strikes, key } of entries) {
      if (!isIdle || !delivers || !ready.has(version) || strikes > 0) continue;
      const isCalled = topics.get(topic).delivery !== 'pull' && this.#receivers.isAlwaysUp(topic);
      const isOpen = isCalled && topics.isSteady(topic, loop.at - topicsKnownMs);
      if (!isOpen) continue;
      const since = Math.max(this.#free.get(version) ?? loop.at, ledger.reservedAt);
      free.set(version, since);
      this.counts['idle reserves judged'] += 1;
      judge.check(
        loop.at - since <= this.#lateMs,
        '9 an idle notifier reserves a ready job within pollCeiling',
        () => `${key} is ready since ${seconds(loop.at - since)}`,
      );
    }
    this.#free = free;
  }

  /** Invariant 14, also while faults happen: one instance that works recovers the expired leases of all, and
   *  a shard that refuses connections delays no other. */
  #lookForTakenOver(): void {
    const { loop, network, redis, topics } = this.#scene;
    const { at } = loop;
    if (redis === null) return;
    const isNetworkUp = network.slowUntil <= at;
    const working = this.#instances.all.filter(
      (master) =>
        isNetworkUp &&
        master.whyIncomplete === null &&
        master.processes.every(({ lastPauseEnd }) => lastPauseEnd <= at - lookedMs),
    );
    // Each call waits for an answer, and a new connection for the registry, which says whose the Redis is.
    const isAnswering =
      !topics.isAway && redis.shards.every(({ machine }) => (machine.process?.pausedUntil ?? 0) <= at);
    for (const [n, { machine }] of redis.shards.entries()) {
      const isUp = isAnswering && machine.process !== null && machine.mood === 'works';
      for (const master of this.#instances.all) {
        const since = this.#worksSince.get(master) ?? [];
        this.#worksSince.set(master, since);
        since[n] = isUp && working.includes(master) ? Math.min(since[n] ?? at, at) : Number.POSITIVE_INFINITY;
      }
      const since = Math.min(...[...this.#worksSince.values()].map((each) => each[n] ?? at));
      if (since <= at - resumedMs) this.#checkTakenOver(n);
    }
  }

  #checkTakenOver(shard: number): void {
    const { loop, judge, ledger } = this.#scene;
    for (const { key, lease } of ledger.all[shard]?.entries.values() ?? []) {
      if (lease === null || lease.wasForgotten) continue;
      // That of a client can end before the first recover of a Redis, which begins a hold.
      const holdMs = lease.pull === null ? 0 : storeLimits.recoverHoldMs;
      const lateMs = loop.at - lease.at - lease.ms - lease.behindMs - holdMs;
      if (lateMs <= 0) continue;
      this.counts['expired leases judged'] += 1;
      judge.check(
        lateMs <= takenOverMs + messagesMs,
        '14 a working instance recovers the expired leases of all',
        () => `${key}: its lease of ${lease.owner.instance} has ended ${seconds(lateMs)} ago`,
      );
    }
  }

  /** A client that waits gets a ready job of its topics. */
  #lookForWanted(ready: ReadonlySet<number>): void {
    const { loop, judge, ledger, topics } = this.#scene;
    const asked = new Set([...this.#clients.waits].flatMap(({ ask }) => ask.topics));
    const wanted = new Map<number, number>();
    for (const { version, topic, key } of asked.size === 0 ? [] : ledger.entries.values()) {
      if (!ready.has(version) || !asked.has(topic) || topics.get(topic).delivery !== 'pull') continue;
      if (!topics.isSteady(topic, loop.at - topicsKnownMs)) continue;
      const since = Math.max(this.#wanted.get(version) ?? loop.at, ledger.reservedAt);
      wanted.set(version, since);
      this.counts['wanted jobs judged'] += 1;
      judge.check(
        loop.at - since <= this.#lateMs,
        '9 a client that waits gets a ready job within pollCeiling',
        () => `${key} is ready since ${seconds(loop.at - since)}`,
      );
    }
    this.#wanted = wanted;
  }

  /** Also without a job a wait ends at its time. */
  #lookForWaits(): void {
    const { loop, judge } = this.#scene;
    for (const { ask, sentAt, server } of this.#clients.waits) {
      this.counts['waits judged'] += 1;
      const overMs = loop.at - Math.max(sentAt, this.#from) - ask.waitMs;
      judge.check(
        overMs <= 2 * messagesMs,
        '9 a client waits no longer than it asks',
        () => `at ${server.process.title} for ${seconds(loop.at - sentAt)} of ${seconds(ask.waitMs)}`,
      );
    }
  }

  #lookForUnsettled(): void {
    const { loop, judge, ledger } = this.#scene;
    for (const entry of ledger.entries.values()) {
      const call = entry.lease?.call ?? null;
      if (call === null || call.endedAt === null || !call.process.isAlive) continue;
      const { endedAt } = call;
      this.counts['ends judged'] += 1;
      judge.check(
        loop.at - endedAt <= settledMs,
        '7 an ended call is settled at once',
        () => `${entry.key} since ${seconds(loop.at - endedAt)}: ${describe(entry)}`,
      );
    }
  }

  #lookForTicks(): void {
    const { loop, judge, topics } = this.#scene;
    if (topics.isAway) this.#readAt = loop.at + resumedMs;
    if (loop.at < this.#readAt) return;
    this.counts['ticks judged'] += 1;
    const late = this.#overdueTicks(loop.wall - ticksMs);
    judge.check(
      late.length === 0,
      'schedules: a tick is late by seconds at most',
      () => `${late.join(', ')}: more than ${seconds(ticksMs)}`,
    );
  }

  #lookForExpired(): void {
    const { loop, judge, ledger, config } = this.#scene;
    // The hold after a jump of the clock lasts longer than a world.
    if (ledger.steppedAt > 0) return;
    const oldest = Math.max(config['dead.retention'], 0) + janitorMs;
    for (const { key, state, deadAt } of ledger.entries.values())
      judge.check(
        state !== 'dead' || loop.at - Math.max(deadAt, this.#from) <= oldest,
        '8 dead letters expire after dead.retention',
        () => `${key} is dead since ${seconds(loop.at - deadAt)}`,
      );
  }
}
