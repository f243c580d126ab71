// The rule that the leases of a dead notifier end before their time: at once after its death where dq-upkeep
// reads of it, and soon after the start of a dq-upkeep that could not.
// Invariant: it holds while the processes that end leases work without a fault.

import { upkeepLimits } from '../../src/upkeep/limits.ts';
import type { Instances } from './instances.ts';
import { seconds } from './ledger.ts';
import type { Master } from './master.ts';
import type { Process } from './process.ts';
import type { Scene } from './scene.ts';

/** The exit of a process is late by half a second at most; messages, turns and calls. */
const toldMs = 1_500;
/** Of a new dq-upkeep, or one that a fault stopped: until it asks who lives, and its call. */
const askedMs = upkeepLimits.whoLivesEveryMs + toldMs;

/** What ends the leases of dead notifiers in one instance. */
interface Watched {
  readonly workers: readonly (Process | null)[];
  /** virtual ms since when they work */
  readonly since: number;
}

export class DeadNotifiers {
  readonly #scene: Scene;
  readonly #instances: Instances;
  readonly #watched = new Map<Master, Watched>();
  /** how often the rule was asked about a lease */
  readonly counts = { 'leases of dead notifiers judged': 0 };

  constructor(scene: Scene, instances: Instances) {
    this.#scene = scene;
    this.#instances = instances;
  }

  /** Several times a second. */
  look(): void {
    const { loop } = this.#scene;
    for (const master of this.#instances.all) {
      const before = this.#watched.get(master) ?? { workers: [], since: loop.at };
      const workers = this.#workersOf(master);
      const since = this.#isWorking(master, workers, before.workers) ? before.since : loop.at;
      this.#watched.set(master, { workers, since });
      this.#lookAt(master.scene.instance, since);
    }
  }

  #lookAt(instance: number, since: number): void {
    const { loop, judge, ledger } = this.#scene;
    for (const { key, lease } of ledger.entries.values()) {
      if (lease === null || lease.owner.instance !== instance) continue;
      const diedAt = loop.processes.get(lease.owner.incarnation)?.diedAt ?? null;
      if (diedAt === null) continue;
      this.counts['leases of dead notifiers judged'] += 1;
      const isTold = diedAt > since + askedMs;
      const sinceMs = loop.at - Math.max(diedAt, since);
      judge.check(
        sinceMs <= (isTold ? toldMs : askedMs),
        '7 the leases of a dead notifier end early',
        () => `${key} since ${seconds(sinceMs)}`,
      );
    }
  }

  #workersOf({ process, scene }: Master): readonly (Process | null)[] {
    const { single, redis } = scene;
    const own = [process, single.worker('upkeep'), single.worker('store')];
    return redis === null ? own : [...own, ...redis.shards.map(({ machine }) => machine.process)];
  }

  /** No fault stops or slows what ends leases, and no reload replaces it. */
  #isWorking(
    { isInForce }: Master,
    workers: readonly (Process | null)[],
    before: readonly (Process | null)[],
  ): boolean {
    const { loop, network, redis, topics } = this.#scene;
    // A process that starts reads the shard list first.
    if (redis !== null && topics.isAway) return false;
    const isQuick = network.slowUntil < loop.at && network.lateUntil < loop.at && network.masterMs === 0;
    if (!isQuick || !isInForce || redis?.isUp === false) return false;
    return workers.every(
      (process, n) =>
        process?.isAlive === true &&
        process === before[n] &&
        !process.isLeaving &&
        process.lastPauseEnd < loop.at - askedMs,
    );
  }
}
